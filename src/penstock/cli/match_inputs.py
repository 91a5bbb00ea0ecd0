"""Reads the input of ``penstock match``: selectors, and messages as JSON lines, PADRES publications or CSV quotes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from penstock.model import Message
from penstock.model.errors import MisuseError
from penstock.model.values import AttributeValue
from penstock.selectors import Selector
from penstock.selectors.padres import parse_padres_publication
from penstock.sim.workloads.lines import InputFileError, open_binary, text_lines
from penstock.sim.workloads.quote_files import QuoteTable, csv_records, looks_like_quotes

__all__ = ["STANDARD_INPUT", "Chunk", "MessageFormat", "NamedSelector", "Source", "read_messages", "read_selectors"]

STANDARD_INPUT: Final = "-"
CHUNK_MESSAGES: Final = 5_000
"""Messages read, matched and answered together; this bounds the memory of a run."""


@dataclass(slots=True, frozen=True)
class Source:
    """A file, or standard input, by the name the user gave it."""

    path: str

    @property
    def name(self) -> str:
        """Its name in error messages."""
        return "standard input" if self.path == STANDARD_INPUT else self.path

    def open(self) -> BinaryIO:
        """Open it as bytes."""
        return sys.stdin.buffer if self.path == STANDARD_INPUT else open_binary(self.path)

    def size_bytes(self) -> int | None:
        """Its size, if known."""
        path = Path(self.path)
        return path.stat().st_size if self.path != STANDARD_INPUT and path.is_file() else None


@dataclass(slots=True, frozen=True)
class NamedSelector:
    """A selector with the name it has in the output: its own id, or its number."""

    name: str | int
    selector: Selector


@dataclass(slots=True, frozen=True)
class Chunk:
    """Some messages as raw text, each with its line number."""

    first_number: int
    """Number of the first message, counted from 1."""
    items: list[tuple[int, str]]


@dataclass(slots=True, frozen=True)
class MessageFormat:
    """Decodes the messages of one file into attributes; small, because it is sent to every worker."""

    name: str
    """The name of the file, for errors."""
    header: str | None = None
    """The header of a CSV file of quotes; None for other formats."""

    def decode(self, items: Iterable[tuple[int, str]]) -> Iterator[dict[str, AttributeValue]]:
        """The attributes of each message."""
        if self.header is not None:
            yield from QuoteTable(self.header, self.name).read(items)
            return
        for line_number, text in items:
            try:
                yield _attributes(text)
            except (MisuseError, msgspec.DecodeError, UnicodeEncodeError) as error:
                raise InputFileError(f"{self.name}, line {line_number}: {_told(error)}") from None


class _IdentifiedSelector(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a selectors file that is a JSON object."""

    selector: str
    id: str | int | None = None


_JSON_MESSAGE: Final = msgspec.json.Decoder(dict[str, str | int | float | bool | None])
_JSON_SELECTOR: Final = msgspec.json.Decoder(str | _IdentifiedSelector)


def read_selectors(source: Source) -> list[NamedSelector]:
    """All selectors of a file, in order."""
    found: list[NamedSelector] = []
    lines_by_name: dict[str, int] = {}
    with source.open() as stream:
        for line_number, text in _items(text_lines(stream, source.name)):
            where = f"{source.name}, line {line_number}"
            try:
                named = _named_selector(text, len(found) + 1)
            except (MisuseError, msgspec.DecodeError, UnicodeEncodeError) as error:
                raise InputFileError(f"{where}: {_told(error)}") from None
            first_line = lines_by_name.setdefault(str(named.name), line_number)
            if first_line != line_number:
                raise InputFileError(f"{where}: the id {named.name!r} is taken by line {first_line}")
            found.append(named)
    if not found:
        raise InputFileError(f"{source.name}: no selectors in it")
    return found


def read_messages(source: Source, stream: BinaryIO) -> tuple[MessageFormat, Iterator[Chunk]]:
    """The format of a file, and its messages in chunks."""
    lines = text_lines(stream, source.name)
    first = next(lines, "")
    lines = chain([first], lines)
    if source.path.endswith((".csv", ".csv.gz")) or looks_like_quotes(first):
        records = csv_records(lines, source.name)
        _, header = next(records, (1, ""))
        QuoteTable(header, source.name)  # report a bad header now, not from a worker
        return MessageFormat(source.name, header), _chunks(records)
    return MessageFormat(source.name), _chunks(_items(lines))


def _items(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without blank lines and comments."""
    for line_number, line in enumerate(lines, start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield line_number, text


def _chunks(items: Iterator[tuple[int, str]]) -> Iterator[Chunk]:
    first_number, pending = 1, list[tuple[int, str]]()
    for item in items:
        pending.append(item)
        if len(pending) == CHUNK_MESSAGES:
            yield Chunk(first_number, pending)
            first_number, pending = first_number + CHUNK_MESSAGES, []
    if pending:
        yield Chunk(first_number, pending)


def _attributes(text: str) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue]
    if text.startswith("["):
        attributes = {**parse_padres_publication(text)}
    elif text.startswith("{"):
        attributes = _JSON_MESSAGE.decode(text)
    else:
        raise MisuseError("expected a JSON object {...} or a PADRES publication [...]")
    Message(attributes)  # raises if they are invalid
    return attributes


def _named_selector(text: str, number: int) -> NamedSelector:
    if not text.startswith(('"', "{")):
        return NamedSelector(number, Selector.parse(text))
    decoded = _JSON_SELECTOR.decode(text)
    if isinstance(decoded, str):
        return NamedSelector(number, Selector.parse(decoded))
    name = number if decoded.id is None else decoded.id
    if isinstance(name, str) and not name.isprintable():
        raise MisuseError(f"the id {name!r} has characters that cannot be printed")
    return NamedSelector(name, Selector.parse(decoded.selector))


def _told(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"not a flat JSON object: {error}"
    if isinstance(error, msgspec.DecodeError):
        return f"malformed JSON: {error}"
    return str(error)
