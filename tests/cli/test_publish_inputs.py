"""What is published: values from the command line, payloads, lines of JSON, quotes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.match_inputs import Source
from penstock.cli.publish_inputs import (
    as_they_come,
    json_messages,
    made_up_quotes,
    parse_attributes,
    parse_value,
    quotes_of,
    read_payload,
)
from penstock.model import Message
from penstock.model.errors import MisuseError
from penstock.model.values import AttributeValue
from penstock.sim.workloads import InputFileError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15", 15),
        ("-3", -3),
        ("+7", 7),
        ("1.5", 1.5),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
        ("true", True),
        ("false", False),
        ("null", None),
        ("True", "True"),
        ("YHOO", "YHOO"),
        ("", ""),
        ("1.2.3", "1.2.3"),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("e5", "e5"),
        ("'15'", "15"),
        ('"true"', "true"),
        ("'", "'"),
        ("''", ""),
        ("'a\"", "'a\""),
    ],
)
def test_a_value_is_what_it_looks_like(text: str, value: AttributeValue) -> None:
    parsed = parse_value(text)
    assert (parsed, type(parsed)) == (value, type(value))


def test_attributes_are_names_with_values() -> None:
    assert parse_attributes(["a=1", "b=x=y", "c="]) == {"a": 1, "b": "x=y", "c": ""}


@pytest.mark.parametrize("texts", [["a"], ["=1"], ["a=1", "a=2"]])
def test_bad_attributes_are_refused(texts: list[str]) -> None:
    with pytest.raises(MisuseError):
        parse_attributes(texts)


def test_a_payload_is_text_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "payload.bin"
    file.write_bytes(b"\x00\xff")
    assert read_payload("18.2 €") == "18.2 €".encode()
    assert read_payload(f"@{file}") == b"\x00\xff"
    with pytest.raises(InputFileError, match="cannot be read"):
        read_payload(f"@{tmp_path}/nothing")


def lines(folder: Path, text: str) -> list[Message]:
    file = folder / "messages.jsonl"
    file.write_text(text)
    return list(json_messages(Source(str(file))))


def test_lines_are_attributes_or_whole_messages(tmp_path: Path) -> None:
    text = '{"a": 1}\n\n{"id": "x", "attributes": {"b": 2}, "payload": "p", "content_type": "text/plain"}\n'
    text += '{"attributes": {}, "payload_base64": "AP8="}\n'
    assert lines(tmp_path, text) == [
        Message({"a": 1}),
        Message({"b": 2}, b"p", "text/plain"),
        Message({}, b"\x00\xff"),
    ]


@pytest.mark.parametrize("line", ["[1]", "{", '{"a": []}', '{"attributes": {}, "payload_base64": "?"}', '{"$a": 1}'])
def test_a_bad_line_is_named_by_its_number(line: str, tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="line 2: "):
        lines(tmp_path, f'{{"a": 1}}\n{line}\n')


def test_quotes_come_from_a_file_or_from_a_seed(tmp_path: Path) -> None:
    file = tmp_path / "quotes.csv"
    file.write_text("date,symbol,open,high,low,close,volume\n2004-12-28,YHOO,37.85,37.99,37.65,37.90,11291000\n")
    count, messages = quotes_of(str(file))
    assert count == 1
    assert next(messages).attributes["symbol"] == "YHOO"
    assert list(made_up_quotes(50, 3)) == list(made_up_quotes(50, 3)) != list(made_up_quotes(50, 4))


def test_a_reader_in_a_thread_keeps_the_order_and_passes_errors_on() -> None:
    def source() -> Iterator[Message]:
        yield from (Message({"n": number}) for number in range(2_500))
        raise InputFileError("line 2501: bad")

    found: list[object] = []

    async def read() -> None:
        async for message in as_they_come(source()):
            found.append(message.attributes["n"])

    with pytest.raises(InputFileError, match="line 2501"):
        asyncio.run(read())
    assert found == list(range(2_500))
