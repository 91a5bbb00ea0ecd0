"""Keeps rows on disk until they are published: tasks write and sync them, the committer reads them in order.

A retried task writes under another name; files of the failed attempt are never reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from uuid import uuid4
from zlib import crc32

import msgspec
from pyspark.sql.datasource import WriterCommitMessage

from penstock.model.body import encode_body
from penstock.model.errors import LimitError
from penstock.model.limits import ATTRIBUTES_BYTES_MAX
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.pipeline.sink.errors import SinkError

__all__ = ["Row", "Staged", "StagedRows", "read_rows", "told", "write_rows"]

_LENGTH_BYTES: Final = 4
_BLOCK_BYTES: Final = 1024 * 1024
_PUBENDS_MAX: Final = 10_000
"""An overlay has no more pubends than this: a column with more names in it holds something else."""
_NOBODY: Final = MessageId(0, 0, 0, 0)


class Row(NamedTuple):
    """A message, and the pubend to publish it to."""

    pubend: str
    message: Message


class _Encoded(msgspec.Struct, array_like=True):
    """A row as it is on disk."""

    attributes: dict[str, str | int | float | bool | None]
    payload: bytes
    content_type: str
    pubend: str = ""
    """Empty in rows that were staged when a journal had one pubend."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Encoded).decode


class StagedRows(msgspec.Struct, frozen=True):
    """A file of rows."""

    path: str
    """Path relative to the staging folder."""
    rows: int
    size: int
    crc: int
    pubends: dict[str, int] = {}
    """How many of the rows go to each pubend."""


@dataclass
class Staged(WriterCommitMessage):
    """A task's report to the driver: the file it has written, and for which streaming query."""

    file: StagedRows
    query: str = ""


def write_rows(rows: Iterable[Row], root: Path, folder: str) -> StagedRows:
    """Write rows to a new file, which is durable when this returns."""
    path = f"{folder}/{uuid4().hex}.rows"
    target = root / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            size, crc, pubends = _written(rows, file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise SinkError(f"rows cannot be staged: {target}: {error.strerror}") from None
    return StagedRows(path, sum(pubends.values()), size, crc, pubends)


def _written(rows: Iterable[Row], file: IO[bytes]) -> tuple[int, int, dict[str, int]]:
    """Write rows to a file; returns their size and checksum, and how many go to each pubend."""
    size = crc = 0
    pubends: dict[str, int] = {}
    for pubend, message in rows:
        row = _encode((dict(message.attributes), message.payload, message.content_type, pubend))
        if len(row) > ATTRIBUTES_BYTES_MAX:
            _check_attributes(message)
        pubends[pubend] = pubends.get(pubend, 0) + 1
        if len(pubends) > _PUBENDS_MAX:
            raise SinkError(f"the rows name more than {_PUBENDS_MAX:,} pubends, and no overlay has that many")
        data = len(row).to_bytes(_LENGTH_BYTES) + row
        file.write(data)
        size, crc = size + len(data), crc32(data, crc)
    return size, crc, pubends


def _check_attributes(message: Message) -> None:
    """Raise ``SinkError`` if the attributes are too large together: no broker would ever accept the message."""
    try:
        encode_body(_NOBODY, message)
    except LimitError as error:
        raise SinkError(f"a row is too large for a message: {error}") from None


def read_rows(root: Path, staged: StagedRows) -> Iterator[Row]:
    """Yield the rows of a file; raises ``SinkError`` before the first one if the file was altered."""
    place = root / staged.path
    # Of rows that name no pubend, a whole file goes to the same one.
    only = next(iter(staged.pubends), "")
    try:
        with place.open("rb") as file:
            if _sums(file) != (staged.size, staged.crc):
                raise SinkError(f"staged rows are damaged: {place} is not as it was written")
            file.seek(0)
            while head := file.read(_LENGTH_BYTES):
                row = _decode(file.read(int.from_bytes(head)))
                yield Row(row.pubend or only, Message(row.attributes, row.payload, row.content_type))
    except OSError as error:
        raise SinkError(f"staged rows cannot be read: {place}: {error.strerror}") from None


def _sums(file: IO[bytes]) -> tuple[int, int]:
    """Size and checksum of a file."""
    size = crc = 0
    while block := file.read(_BLOCK_BYTES):
        size, crc = size + len(block), crc32(block, crc)
    return size, crc


def told(messages: Iterable[Any]) -> list[Staged]:
    """The reports of tasks; a failed task has none."""
    return [each for each in messages if isinstance(each, Staged)]
