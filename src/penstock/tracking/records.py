"""Small records that tracking keeps beside its filters: marks, gaps, bounds, aliases, attachments.

A record is a magic number, its kind, its version, a MessagePack array and a checksum over all of that; a record of
which bits are missing or flipped is recognised.

PeerError
└── DamagedRecordError    bytes that are not, or not any more, what they should be
"""

from __future__ import annotations

from binascii import crc32
from typing import Final, TypeVar

import msgspec

from penstock.model.decoding import UnreadableError, decoded
from penstock.model.errors import PeerError
from penstock.tracking.spans import Span

__all__ = [
    "AliasRecord",
    "AttachmentRecord",
    "DamagedRecordError",
    "GapRecord",
    "Keep",
    "MarkRecord",
    "Record",
    "SinceRecord",
    "decode_record",
    "encode_record",
]

_MAGIC: Final = b"PTR"
_VERSION: Final = 1
_HEAD: Final = 5
_CHECKSUM: Final = 4


class DamagedRecordError(PeerError):
    """Bytes that are not, or not any more, a record of tracking."""


class Keep(msgspec.Struct, frozen=True):
    """A value to make durable; one of the same name before it is overwritten, and an empty place is None."""

    name: str
    value: bytes | None

    @property
    def size_bytes(self) -> int:
        """What it counts in the bound of values that wait."""
        return len(self.name) + len(self.value or b"")


class MarkRecord(msgspec.Struct, frozen=True, array_like=True):
    """Up to when everything that was recorded is stored; what a life leaves for the next one to judge by."""

    stored_ms: int
    """The broker's clock when everything before was handed to the store."""
    floor_ms: int
    """The oldest timestamp among the late messages recorded since then, or ``stored_ms``."""
    is_stopped: bool = False
    """Whether the broker stopped in order after it: then nothing is missing."""


class GapRecord(msgspec.Struct, frozen=True, array_like=True):
    """An interval in which something that happened may not have been recorded."""

    spans: tuple[Span, ...]
    """The timestamps of the messages concerned."""
    reason: str
    """``crash``, ``overload``, ``damaged`` or ``off``."""
    key: str = ""
    """The history concerned; empty for all of them."""

    def concerns(self, key: str, timestamp_ms: int) -> bool:
        """Whether it makes a no of this history worthless."""
        return self.key in ("", key) and any(first <= timestamp_ms <= last for first, last in self.spans)


class SinceRecord(msgspec.Struct, frozen=True, array_like=True):
    """Since when filters, attachments or aliases are known: what was older had to go, or was never recorded."""

    known_since_ms: int


class AliasRecord(msgspec.Struct, frozen=True, array_like=True):
    """A message that was published at another broker than its id names, as its publisher tried again there."""

    message_id: bytes
    """The 16 bytes."""
    broker: str
    """Name of the broker that published it."""
    number: int
    """Its number."""
    published_ms: int


class AttachmentRecord(msgspec.Struct, frozen=True, array_like=True):
    """A subscriber at this broker, from attaching to detaching."""

    number: int
    """Counts the attachments of a broker."""
    subscriber: str
    attached_ms: int
    detached_ms: int | None
    starts: dict[str, int]
    """By pubend the tick from which on it was to receive messages."""
    ends: dict[str, int]
    """By pubend the first tick that it did not receive any more; empty while it is attached."""
    selector: str = ""
    """What it asked for; empty if that is too long to be kept, or in records of earlier versions."""
    is_durable: bool = False
    """Whether it is a durable subscription."""


Record = MarkRecord | GapRecord | AliasRecord | AttachmentRecord | SinceRecord
"""Whatever is kept as a small record."""

_KINDS: Final[dict[type[Record], int]] = {
    MarkRecord: 1,
    GapRecord: 2,
    AliasRecord: 3,
    AttachmentRecord: 4,
    SinceRecord: 5,
}
_encode: Final = msgspec.msgpack.Encoder().encode
_AnyRecord = TypeVar("_AnyRecord", MarkRecord, GapRecord, AliasRecord, AttachmentRecord, SinceRecord)


def encode_record(record: Record) -> bytes:
    """The record as bytes."""
    framed = _MAGIC + bytes((_KINDS[type(record)], _VERSION)) + _encode(record)
    return framed + crc32(framed).to_bytes(_CHECKSUM, "big")


def decode_record(value: bytes, kind: type[_AnyRecord]) -> _AnyRecord:
    """The record with these bytes; raises ``DamagedRecordError``."""
    framed, checksum = value[:-_CHECKSUM], value[-_CHECKSUM:]
    if len(value) < _HEAD + _CHECKSUM or crc32(framed).to_bytes(_CHECKSUM, "big") != checksum:
        raise DamagedRecordError(f"a record of {len(value)} bytes does not have the checksum it should have")
    if framed[:_HEAD] != _MAGIC + bytes((_KINDS[kind], _VERSION)):
        raise DamagedRecordError(f"a record begins with {framed[:_HEAD]!r}, so it is no {kind.__name__}")
    try:
        return decoded(lambda data: msgspec.msgpack.decode(data, type=kind), framed[_HEAD:])
    except UnreadableError as error:
        raise DamagedRecordError(f"a {kind.__name__} cannot be read: {error}") from None
