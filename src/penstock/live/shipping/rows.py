"""Turns a broker's records into rows of the lake's tables ([Tracking] section 3.2: histories and Sm).

Kept records named ``filter/``, ``attachment/``, ``gap/``, ``alias/``, ``since/`` and ``mark`` are shipped, and named
values under ``durable/``. Nothing else is for the lake.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from penstock.broker.pubend.register import decode_named
from penstock.live.shipping.cargo import Cargo, micros
from penstock.model import lake_tables as tables
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.records import (
    AliasRecord,
    AttachmentRecord,
    GapRecord,
    MarkRecord,
    SinceRecord,
    decode_record,
)
from penstock.tracking.spans import Span
from penstock.tracking.stored import FilterHeader, StoredFilter, decode_filter, decode_header
from penstock.tracking.strategy import MARK

__all__ = ["FOREVER_MS", "MARK", "POSITION_PREFIX", "Version", "add_position", "add_record", "is_shipped", "version_of"]

POSITION_PREFIX: Final = "durable/"
FOREVER_MS: Final = 2**63 - 1

_KEPT: Final = ("filter/", "attachment/", "gap/", "alias/", "since/")
_SPAN: Final = struct.Struct(">qq")
_SIGN: Final = 1 << 63


@dataclass(slots=True, frozen=True)
class Version:
    """Identifies a state of a record, so that the same state is not shipped again."""

    number: int
    is_final: bool = False
    """Whether the record cannot change any more."""
    settled_ms: int = 0
    """When a sealed filter was last added to; 0 for other records."""


def is_shipped(name: str) -> bool:
    """Whether kept records of this name are shipped as they change; the mark is not, as it follows all it covers."""
    return name.startswith(_KEPT)


def version_of(name: str, value: bytes) -> Version:
    """The version of a kept record; raises ``DamagedRecordError``."""
    kind = name.partition("/")[0]
    if kind == "filter":
        header = decode_header(value)
        settled_ms = 0 if header.is_open else header.added_ms
        return Version(2 * header.generation + header.is_open, not header.is_open, settled_ms)
    if kind == "attachment":
        return Version(crc32(value), decode_record(value, AttachmentRecord).detached_ms is not None)
    return Version(crc32(value), kind == "alias")


def add_record(cargo: Cargo, name: str, value: bytes, *, now_ms: int) -> None:
    """Add the rows of a kept record; raises ``DamagedRecordError``."""
    kind = name.partition("/")[0]
    if kind == "filter":
        stored = decode_filter(value)
        (_add_bloom if stored.header.kind == "bloom" else _add_exact)(cargo, stored)
    elif kind == "attachment":
        _add_attachment(cargo, decode_record(value, AttachmentRecord))
    elif kind == "alias":
        _add_alias(cargo, decode_record(value, AliasRecord))
    elif kind == "gap":
        gap = decode_record(value, GapRecord)
        _add_gap(cargo, gap.key, gap.reason, gap.spans, now_ms)
    elif kind == "since":
        since_ms = decode_record(value, SinceRecord).known_since_ms
        _add_gap(cargo, name.partition("/")[2], "since", [(0, max(since_ms - 1, 0))], now_ms)
    else:
        # With this batch, all that was recorded up to the mark is in the lake.
        mark = decode_record(value, MarkRecord)
        _add_gap(cargo, "", "open", [(min(mark.stored_ms, mark.floor_ms), FOREVER_MS)], now_ms)


def add_position(cargo: Cargo, name: str, value: bytes | None, pubends: Iterable[str], *, now_ms: int) -> None:
    """Add the row of a durable subscription's position, or of its removal.

    Raises ``ValueError`` if it belongs to none of these pubends, or cannot be read.
    """
    rest = name.removeprefix(POSITION_PREFIX)
    # Both names may have slashes in them: the longest pubend that matches is meant.
    pubend = max((each for each in pubends if rest.startswith(f"{each}/")), key=len, default="")
    if not pubend:
        raise ValueError(f"{name} is of no pubend here")
    name = rest[len(pubend) + 1 :]
    if value is None:
        cargo.add(tables.POSITIONS, now_ms, pubend, name, None, None, None, True, micros(now_ms))  # noqa: FBT003
    else:
        named = decode_named(value)
        row = _bounded(named.tick), _bounded(named.ownership), named.host, False, micros(now_ms)
        cargo.add(tables.POSITIONS, now_ms, pubend, name, *row)


def _add_bloom(cargo: Cargo, stored: StoredFilter) -> None:
    header, shape = stored.header, stored.header.shape
    first_ms, last_ms = header.index.range or (None, None)
    cargo.add(
        tables.HISTORIES,
        header.opened_ms,
        *_key(header),
        header.is_open,
        header.hash_version,
        shape.m,
        shape.k,
        shape.n,
        header.count,
        micros(header.opened_ms),
        micros(header.added_ms),
        first_ms,
        last_ms,
        _spans(header.index.singletons),
        stored.body,
    )


def _add_exact(cargo: Cargo, stored: StoredFilter) -> None:
    header = stored.header
    high, low, subscribers = stored.exact().columns()
    if subscribers is None and header.key.part:
        # In the log of one subscriber, its key is combined with the identifiers.
        subscribers = np.full(len(high), int(header.key.part, 16), dtype=np.uint64)
        high = high ^ subscribers
    count = len(high)
    columns = dict(zip(_KEY_NAMES, ([value] * count for value in _key(header)), strict=True))
    own = {
        "place": np.arange(count, dtype=np.int64),
        "id_high": high.astype(np.uint64).view(np.int64),
        "id_low": low.astype(np.uint64).view(np.int64),
        "subscriber_key": [None] * count if subscribers is None else subscribers.view(np.int64),
    }
    cargo.add_block(tables.RECORDS, header.opened_ms, {**columns, **own}, count)


def _add_attachment(cargo: Cargo, record: AttachmentRecord) -> None:
    attached, detached = micros(record.attached_ms), micros(record.detached_ms)
    places = [[(pubend, _bounded(tick)) for pubend, tick in each.items()] for each in (record.starts, record.ends)]
    key = _signed(subscriber_key(record.subscriber))
    day_ms = record.attached_ms
    cargo.add(tables.ATTACHMENTS, day_ms, record.number, record.subscriber, key, attached, detached, *places)
    asked = record.is_durable, record.selector or None
    cargo.add(tables.SUBSCRIPTIONS, day_ms, record.number, record.subscriber, *asked, attached, detached, *places)


def _add_alias(cargo: Cargo, record: AliasRecord) -> None:
    high, low = struct.unpack(">qq", record.message_id)
    row = high, low, record.broker, record.number, micros(record.published_ms)
    cargo.add(tables.ALIASES, record.published_ms, *row)


def _add_gap(cargo: Cargo, history: str, reason: str, spans: Sequence[Span], now_ms: int) -> None:
    cargo.add(tables.GAPS, now_ms, history, reason, _spans(spans), micros(now_ms))


_KEY_NAMES: Final = ("history", "phase", "origin", "part", "is_late", "filter_id", "generation")


def _key(header: FilterHeader) -> tuple[str | int | bool, ...]:
    key = header.key
    return str(key), str(key.phase), key.origin, key.part, key.is_late, header.filter_id, header.generation


def _spans(spans: Iterable[Span]) -> bytes:
    return b"".join(_SPAN.pack(*span) for span in spans)


def _bounded(number: int) -> int:
    """A number, cut to what a column can hold: one that is out of bounds must not keep others out of the lake."""
    return min(number, FOREVER_MS)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= _SIGN else number
