"""Inputs of ``penstock match``: numbered as in the file, in chunks, and recognised by what they look like."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from penstock.cli import match_inputs
from penstock.cli.match_inputs import MessageFormat, Source, read_messages, read_selectors
from penstock.sim.workloads import InputFileError

HEADER = "date,symbol,open,high,low,close,volume\n"


def test_chunks_number_messages_and_remember_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_inputs, "CHUNK_MESSAGES", 2)
    text = b'# skipped\n{"a": 1}\n\n{"a": 2}\n{"a": 3}\n'
    message_format, chunks = read_messages(Source("file"), io.BytesIO(text))
    found = list(chunks)
    assert [chunk.first_number for chunk in found] == [1, 3]
    assert [line for chunk in found for line, _ in chunk.items] == [2, 4, 5]
    assert list(message_format.decode(found[1].items)) == [{"a": 3}]


def test_a_quoted_field_over_two_lines_is_one_message() -> None:
    text = f'{HEADER}d,"X\nY",1,1,1,1,1\nd,Z,1,1,1,1,1\n'.encode()
    message_format, chunks = read_messages(Source("file"), io.BytesIO(text))
    (chunk,) = chunks
    assert [line for line, _ in chunk.items] == [2, 4]
    assert [message["symbol"] for message in message_format.decode(chunk.items)] == ["X\nY", "Z"]


def test_a_bad_header_is_refused_before_any_work_starts() -> None:
    with pytest.raises(InputFileError, match="no column date"):
        read_messages(Source("file.csv"), io.BytesIO(b"a,b\n1,2\n"))


def test_values_of_every_type_are_kept_apart() -> None:
    line = '{"s": "1", "i": 1, "f": 1.0, "t": true, "n": null, "big": 9223372036854775807}'
    (message,) = MessageFormat("file").decode([(1, line)])
    assert [type(value) for value in message.values()] == [str, int, float, bool, type(None), int]
    assert message["big"] == 2**63 - 1


def test_a_padres_publication_is_a_message() -> None:
    (message,) = MessageFormat("file").decode([(1, "[class,'STOCK'],[volume,500]")])
    assert message == {"class": "STOCK", "volume": 500}


def test_selectors_are_named_by_id_or_number(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('a = 1\n{"id": "x", "selector": "a = 2"}\n\na = 3\n')
    assert [named.name for named in read_selectors(Source(str(tmp_path / "file")))] == [1, "x", 3]


def test_the_size_of_a_file_is_known_and_that_of_standard_input_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert Source(str(tmp_path / "file")).size_bytes() == 5
    assert Source("-").size_bytes() is None
    assert Source("-").name == "standard input"
