"""Small records that tracking keeps beside its filters: marks, gaps, bounds, aliases, attachments.

A record is a magic number, its kind, its version, a MessagePack array and a checksum over all of that, which
detects missing or flipped bits.

PeerError
└── DamagedRecordError    bytes that are not a valid record, or no longer one
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
    """Bytes that are not a valid tracking record, or no longer one."""


class Keep(msgspec.Struct, frozen=True):
    """A value to make durable, replacing an earlier one of the same name; None deletes it."""

    name: str
    value: bytes | None

    @property
    def size_bytes(self) -> int:
        """How much it counts towards the bound on waiting values."""
        return len(self.name) + len(self.value or b"")


class MarkRecord(msgspec.Struct, frozen=True, array_like=True):
    """The time up to which everything recorded is stored, so that the next run knows what a crash may have lost."""

    stored_ms: int
    """The broker's clock when everything recorded so far had been handed to the store."""
    floor_ms: int
    """The oldest timestamp among the late messages recorded since then, or ``stored_ms``."""
    is_stopped: bool = False
    """Whether the broker then shut down cleanly: if so, nothing is missing."""


class GapRecord(msgspec.Struct, frozen=True, array_like=True):
    """An interval in which events may have gone unrecorded."""

    spans: tuple[Span, ...]
    """The timestamps of the messages concerned."""
    reason: str
    """``crash``, ``overload``, ``damaged``, ``retention`` or ``stop``."""
    key: str = ""
    """The history concerned; empty for all of them."""

    def concerns(self, key: str, timestamp_ms: int) -> bool:
        """Whether it makes a "no" from this history meaningless for this timestamp."""
        return self.key in ("", key) and any(first <= timestamp_ms <= last for first, last in self.spans)


class SinceRecord(msgspec.Struct, frozen=True, array_like=True):
    """The time since which filters, attachments or aliases are known; older ones were dropped or never recorded."""

    known_since_ms: int


class AliasRecord(msgspec.Struct, frozen=True, array_like=True):
    """A message published at another broker than its id names, because its publisher retried there."""

    message_id: bytes
    """The 16-byte id."""
    broker: str
    """Name of the broker that published it."""
    number: int
    """Number of that broker."""
    published_ms: int


class AttachmentRecord(msgspec.Struct, frozen=True, array_like=True):
    """A subscriber at this broker, from attaching to detaching."""

    number: int
    """Sequence number among the attachments of a broker."""
    subscriber: str
    attached_ms: int
    detached_ms: int | None
    starts: dict[str, int]
    """The tick from which it was to receive messages, by pubend."""
    ends: dict[str, int]
    """The first tick it no longer received, by pubend; empty while it is attached."""
    selector: str = ""
    """The subscriber's selector; empty if it is too long to keep, or in records of earlier versions."""
    is_durable: bool = False
    """Whether it is a durable subscription."""


Record = MarkRecord | GapRecord | AliasRecord | AttachmentRecord | SinceRecord
"""Any of the small records."""

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
        raise DamagedRecordError(f"a record of {len(value)} bytes is too short, or its checksum does not match")
    if framed[:_HEAD] != _MAGIC + bytes((_KINDS[kind], _VERSION)):
        raise DamagedRecordError(f"a record begins with {framed[:_HEAD]!r}, so it is no {kind.__name__}")
    try:
        return decoded(lambda data: msgspec.msgpack.decode(data, type=kind), framed[_HEAD:])
    except UnreadableError as error:
        raise DamagedRecordError(f"a {kind.__name__} cannot be read: {error}") from None
