"""Keeps rows on disk until they are published: tasks write and sync them, the committer reads them in order.

A retried task writes under another name; files of the failed attempt are never reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
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

__all__ = ["Staged", "StagedRows", "read_rows", "told", "write_rows"]

_LENGTH_BYTES: Final = 4
_BLOCK_BYTES: Final = 1024 * 1024
_NOBODY: Final = MessageId(0, 0, 0, 0)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[dict[str, str | int | float | bool | None], bytes, str]).decode


class StagedRows(msgspec.Struct, frozen=True):
    """A file of rows."""

    path: str
    """Path relative to the staging folder."""
    rows: int
    size: int
    crc: int


@dataclass
class Staged(WriterCommitMessage):
    """A task's report to the driver: the file it has written, and for which streaming query."""

    file: StagedRows
    query: str = ""


def write_rows(messages: Iterable[Message], root: Path, folder: str) -> StagedRows:
    """Write messages to a new file, which is durable when this returns."""
    path = f"{folder}/{uuid4().hex}.rows"
    target = root / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            rows, size, crc = _written(messages, file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise SinkError(f"rows cannot be staged: {target}: {error.strerror}") from None
    return StagedRows(path, rows, size, crc)


def _written(messages: Iterable[Message], file: IO[bytes]) -> tuple[int, int, int]:
    """Write messages to a file; returns their number, size and checksum."""
    rows = size = crc = 0
    for message in messages:
        row = _encode((dict(message.attributes), message.payload, message.content_type))
        if len(row) > ATTRIBUTES_BYTES_MAX:
            _check_attributes(message)
        data = len(row).to_bytes(_LENGTH_BYTES) + row
        file.write(data)
        rows, size, crc = rows + 1, size + len(data), crc32(data, crc)
    return rows, size, crc


def _check_attributes(message: Message) -> None:
    """Raise ``SinkError`` if the attributes are too large together: no broker would ever accept the message."""
    try:
        encode_body(_NOBODY, message)
    except LimitError as error:
        raise SinkError(f"a row is too large for a message: {error}") from None


def read_rows(root: Path, staged: StagedRows) -> Iterator[Message]:
    """Yield the messages of a file; raises ``SinkError`` before the first one if the file was altered."""
    place = root / staged.path
    try:
        with place.open("rb") as file:
            if _sums(file) != (staged.size, staged.crc):
                raise SinkError(f"staged rows are damaged: {place} is not as it was written")
            file.seek(0)
            while head := file.read(_LENGTH_BYTES):
                attributes, payload, content_type = _decode(file.read(int.from_bytes(head)))
                yield Message(attributes, payload, content_type)
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
