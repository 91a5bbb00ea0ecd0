from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipeline.source.errors import SourceOptionError
from penstock.pipeline.source.options import OPTIONS, Connecting, parse_options, read_token
from penstock.pipeline.source.positions import EARLIEST, LATEST, Position
from penstock.selectors import EVERYTHING, Selector, SelectorError
from penstock.session.errors import AddressError

BROKER = {"broker": "penstock://127.0.0.1:7000"}


def test_only_the_broker_must_be_named() -> None:
    options = parse_options(BROKER)
    assert (options.selector, options.pubends, options.missing, options.mismatch) == (EVERYTHING, (), "fail", "null")
    assert (options.rows_max, options.splits_max, options.split_ms_min, options.pushdown) == (None, 4, 1_000, True)
    assert options.batch_range == (EARLIEST, LATEST)
    assert options.stream_start == LATEST


def test_every_option_is_understood_in_any_case_of_letters() -> None:
    given = {
        "BROKER": "penstock://a:1,b",
        "TOKEN": "t",
        "ca": "ca.pem",
        "certificate": "c.pem",
        "key": "k.pem",
        "selector": "volume > 1",
        "pubends": "x, y,,x",
        "startingposition": "Earliest",
        "ENDINGPOSITION": "1970-01-01T00:00:01Z",
        "columns": "symbol string,",
        "missing": "SKIP",
        "mismatch": "fail",
        "maxRowsPerTrigger": "10",
        "silenceMs": "0",
        "maxSplits": "7",
        "minSplitMs": "3",
        "pushdown": "false",
        "connectTimeoutMs": "11",
        "retryTimeoutMs": "0",
    }
    assert {*map(str.lower, given), "tokenfile"} == {name.lower() for name in OPTIONS}
    options = parse_options(given)
    assert options.connecting == Connecting("penstock://a:1,b", "t", "", "ca.pem", "c.pem", "k.pem", 11, 0)
    assert options.selector == Selector.parse("volume > 1")
    assert options.pubends == ("x", "y")
    assert options.batch_range == (EARLIEST, Position("time", ms=1_000))
    assert (options.columns, options.missing, options.mismatch) == ("symbol string", "skip", "fail")
    assert (options.rows_max, options.silence_ms, options.splits_max, options.split_ms_min) == (10, 0, 7, 3)
    assert not options.pushdown


def test_an_unknown_option_is_refused_with_the_nearest_and_all() -> None:
    with pytest.raises(SourceOptionError, match=r"no option 'selectr'.*did you mean selector.*maxRowsPerTrigger"):
        parse_options({**BROKER, "selectr": "x"})
    with pytest.raises(SourceOptionError, match="no option 'path'; the options are broker, token"):
        parse_options({**BROKER, "path": "x"})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "option broker is missing"),
        ({**BROKER, "token": "a", "tokenFile": "b"}, "exclude each other"),
        ({**BROKER, "certificate": "a", "key": "b"}, "need ca"),
        ({**BROKER, "ca": "a", "key": "b"}, "key needs certificate"),
        ({**BROKER, "ca": "a", "certificate": "b"}, "certificate needs key"),
        ({**BROKER, "missing": "maybe"}, "option missing is 'maybe', which is not one of fail, skip"),
        ({**BROKER, "mismatch": ""}, "not one of null, fail"),
        ({**BROKER, "maxRowsPerTrigger": "0"}, "at least 1"),
        ({**BROKER, "maxRowsPerTrigger": "1e3"}, "not a whole number"),
        ({**BROKER, "silenceMs": "-1"}, "option silenceMs is '-1'"),
        ({**BROKER, "maxSplits": "10001"}, "maxSplits"),
        ({**BROKER, "minSplitMs": "٣"}, "minSplitMs"),
        ({**BROKER, "startingPosition": "soon"}, "option startingPosition: 'soon' is not one of"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, str], problem: str) -> None:
    with pytest.raises(SourceOptionError, match=problem):
        parse_options(given)


def test_bad_addresses_and_selectors_are_refused_as_everywhere() -> None:
    with pytest.raises(AddressError):
        parse_options({"broker": "http://x"})
    with pytest.raises(SelectorError):
        parse_options({**BROKER, "selector": "volume >"})


def test_a_stream_has_no_end() -> None:
    with pytest.raises(SourceOptionError, match="endingPosition is for batch reads"):
        _ = parse_options({**BROKER, "endingPosition": "latest"}).stream_start


def test_the_token_is_not_shown() -> None:
    options = parse_options({**BROKER, "token": "s3cret"})
    assert "s3cret" not in repr(options)
    assert "s3cret" not in str(options)


def test_a_token_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" s3cret\n", encoding="utf-8")
    assert read_token(Connecting("b", token_file=str(tmp_path / "token"))) == "s3cret"
    assert read_token(Connecting("b", "t")) == "t"


def test_a_token_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceOptionError, match=r"cannot read .*none: No such file"):
        read_token(Connecting("b", token_file=str(tmp_path / "none")))
    (tmp_path / "bad").write_bytes(b"\xff")
    with pytest.raises(SourceOptionError, match="it is not text"):
        read_token(Connecting("b", token_file=str(tmp_path / "bad")))
