"""Files of quotes are read as they are, and what is wrong with one is said with file, line and column."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from penstock.sim.workloads import InputFileError, load_quotes
from penstock.sim.workloads.quote_files import csv_records, looks_like_quotes

HEADER = "date,symbol,open,high,low,close,volume"
ROW = "2004-12-28,YHOO,37.85,37.99,37.65,37.90,11291000"
QUOTE = {
    "class": "STOCK",
    "date": "2004-12-28",
    "symbol": "YHOO",
    "open": 37.85,
    "high": 37.99,
    "low": 37.65,
    "close": 37.9,
    "volume": 11_291_000,
}


def written(folder: Path, text: str) -> Path:
    path = folder / "quotes.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_a_plain_file_gives_one_publication_per_row(tmp_path: Path) -> None:
    assert load_quotes(written(tmp_path, f"{HEADER}\n{ROW}\n\n{ROW}\n")) == [QUOTE, QUOTE]


def test_windows_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    assert load_quotes(written(tmp_path, f"\ufeff{HEADER}\r\n{ROW}\r\n")) == [QUOTE]


def test_gzip_is_recognised_by_content_whatever_the_name(tmp_path: Path) -> None:
    path = tmp_path / "quotes"
    path.write_bytes(gzip.compress(f"{HEADER}\n{ROW}\n".encode()))
    assert load_quotes(path) == [QUOTE]


def test_further_columns_become_attributes_of_the_type_they_look_like(tmp_path: Path) -> None:
    path = written(tmp_path, f'{HEADER},a,b,c,d,e\n{ROW},7,0.5,,"two\nlines, quoted",nan\n')
    assert load_quotes(path) == [{**QUOTE, "a": 7, "b": 0.5, "c": None, "d": "two\nlines, quoted", "e": "nan"}]


def test_a_column_class_of_its_own_wins(tmp_path: Path) -> None:
    assert load_quotes(written(tmp_path, f"class,{HEADER}\nBOND,{ROW}\n"))[0]["class"] == "BOND"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty; expected a header with date,symbol"),
        ("\n\n", "empty"),
        (f"{HEADER}\n", "no quotes in it"),
        ("date,symbol,open\n", "line 1: no column high, low, close, volume"),
        (f"{HEADER},high\n", "line 1: column high occurs twice"),
        (f"{HEADER},$x\n", r"line 1: '\$x' cannot be the name"),
        (f"{HEADER},\n", "line 1: '' cannot be the name"),
        (f"{HEADER}\n{ROW}\n{ROW.replace('37.99', 'much')}\n", "line 3, column high: 'much' is not a number"),
        (f"{HEADER}\n{ROW.replace('37.99', 'inf')}\n", "line 2, column high: 'inf' is not a finite number"),
        (f"{HEADER}\n{ROW}.5\n", "line 2, column volume: '11291000.5' is not an integer"),
        (f"{HEADER}\n{ROW}{'0' * 20}\n", "line 2, column volume: '1129100000.*' is beyond 64 bits"),
        (f"{HEADER}\n{ROW.replace('YHOO', '')}\n", "line 2, column symbol: '' is empty"),
        (f"{HEADER}\n{ROW},1\n", "line 2: 8 columns, but the header has 7"),
        (f'{HEADER}\n{ROW}\n"{ROW}\n{ROW}\n', "line 3: a quoted field that does not end"),
        (f"{HEADER}\n{ROW.replace('YHOO', 'x' * 70_000)}\n", "column symbol: 'xxx.*' is longer than 65,536"),
        (f"{HEADER}\n{ROW.replace('YHOO', 'x' * 140_000)}\n", "line 2: not CSV: field larger than"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputFileError, match=complaint) as caught:
        load_quotes(written(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "quotes.csv"))


def test_a_quote_that_never_ends_is_given_up_before_it_fills_the_memory() -> None:
    def endless() -> list[str]:
        return ['"\n'] + ["a\n"] * 5_000

    with pytest.raises(InputFileError, match="line 1: a quoted field that does not end"):
        list(csv_records(endless(), "file"))


def test_the_header_is_recognised_in_any_order() -> None:
    assert looks_like_quotes('volume, close,"low",high,open,symbol,date,more\n')
    assert not looks_like_quotes('{"date": 1}')
