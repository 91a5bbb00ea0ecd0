"""The subscriber attachment map Sm: who was attached, and for which part of each stream ([Tracking] section 3.2).

Deviation from the paper, whose map has times only: an attachment also has the positions in the pubends' streams where
it began and ended. A subscriber that attaches today and asks for the messages of yesterday, to catch up, to replay or
after a migration, was not attached when they were published, but did receive them.

A change is stored before it takes effect: methods that make one return the values to store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.tracking.records import AttachmentRecord, Keep, SinceRecord, encode_record

__all__ = ["AttachmentMap", "ends_ms", "starts_ms"]

_TICK_SHIFT = 16
_SELECTOR_BYTES_MAX: Final = 2_048
"""Longer selectors are not kept: there are many records, and they stay long after their subscribers have left."""
_BYTES_MAX: Final = 64 * 1024 * 1024
_RECORD_BYTES: Final = 200
_TICK_BYTES: Final = 100
"""Approximate memory of a record, and of each position in it with the name of its pubend."""


class AttachmentMap:
    """The subscribers of one broker, past and present."""

    def __init__(self, attachments_max: int = 200_000, bytes_max: int = _BYTES_MAX) -> None:
        assert attachments_max > 0
        assert bytes_max > 0
        self._attachments_max, self._bytes_max = attachments_max, bytes_max
        self._bytes = 0
        self._records: dict[int, AttachmentRecord] = {}
        self._next = 1
        self.known_since_ms = 0
        """Receivers of messages older than this may be forgotten, even if they attached later to catch up."""

    def __len__(self) -> int:
        return len(self._records)

    def load(self, record: AttachmentRecord) -> None:
        """Add a record of an earlier run."""
        if len(record.selector.encode()) > _SELECTOR_BYTES_MAX:
            record = msgspec.structs.replace(record, selector="")
        self._put(record)
        self._next = max(self._next, record.number + 1)

    def load_since(self, record: SinceRecord) -> None:
        """Restore the ``known_since_ms`` of an earlier run."""
        self.known_since_ms = max(self.known_since_ms, record.known_since_ms)

    def end_earlier_life(self, *, now_ms: int) -> list[Keep]:
        """Detach, after a restart, all who were still attached; they may have received messages up to now."""
        open_numbers = [number for number, record in self._records.items() if record.detached_ms is None]
        keeps = [keep for number in open_numbers for keep in self.detach(number, {}, now_ms=now_ms)]
        return [*keeps, *self._bound()]

    def attach(
        self, subscriber: str, starts: Mapping[str, int], *, now_ms: int, selector: str = "", durable: bool = False
    ) -> tuple[int, list[Keep]]:
        """Attach a subscriber, to receive each pubend from a tick on; returns its number and the values to store.

        For a pubend that is not named, the time of attaching counts. A selector that is too long is left out, not cut:
        a truncated one would not say what was asked for.
        """
        if len(selector.encode()) > _SELECTOR_BYTES_MAX:
            selector = ""
        record = AttachmentRecord(self._next, subscriber, now_ms, None, dict(starts), {}, selector, durable)
        self._next += 1
        keep = self._keep(record)
        return record.number, [keep, *self._bound()]

    def begin(self, number: int, starts: Mapping[str, int]) -> list[Keep]:
        """Extend an attachment to further pubends, or to earlier ticks of some."""
        record = self._records[number]
        changed = {pubend: tick for pubend, tick in starts.items() if tick < record.starts.get(pubend, tick + 1)}
        if not changed:
            return []
        return [self._keep(msgspec.structs.replace(record, starts={**record.starts, **changed}))]

    def detach(self, number: int, ends: Mapping[str, int], *, now_ms: int) -> list[Keep]:
        """Detach a subscriber that received each pubend below a tick; returns the values to store.

        For a pubend that is not named, the time of detaching counts.
        """
        record = self._records.get(number)
        if record is None or record.detached_ms is not None:
            return []
        return [self._keep(msgspec.structs.replace(record, detached_ms=now_ms, ends=dict(ends)))]

    def covering(self, first_ms: int, last_ms: int, *, pubends: frozenset[str] | None = None) -> list[str]:
        """The subscribers that may have received messages of these times, from any of these pubends, in order of name.

        The interval is a timestamp and the skew around it: positions are ticks of another clock.
        """
        return sorted(
            {
                record.subscriber
                for record in self._records.values()
                if starts_ms(record, pubends) <= last_ms and first_ms <= ends_ms(record, pubends)
            }
        )

    def earliest_start_ms(self, *, attached_since_ms: int) -> int | None:
        """The earliest start among subscribers attached since then."""
        return min(
            (starts_ms(each, None) for each in self._records.values() if each.attached_ms >= attached_since_ms),
            default=None,
        )

    def _put(self, record: AttachmentRecord) -> None:
        former = self._records.get(record.number)
        self._bytes += _size(record) - (_size(former) if former is not None else 0)
        self._records[record.number] = record

    def _keep(self, record: AttachmentRecord) -> Keep:
        self._put(record)
        return Keep(f"attachment/{record.number:012x}", encode_record(record))

    def _bound(self) -> list[Keep]:
        """Forget the oldest ended attachments when there are too many."""
        dropped: list[Keep] = []
        if len(self._records) <= self._attachments_max and self._bytes <= self._bytes_max:
            return dropped
        # A tenth at once: the scan takes as long for many as for one.
        left_max = min(len(self._records) - 1, self._attachments_max - self._attachments_max // 10)
        bytes_max = self._bytes_max - self._bytes_max // 10
        for number, record in list(self._records.items()):
            if len(self._records) <= left_max and self._bytes <= bytes_max:
                break
            if record.detached_ms is not None:
                del self._records[number]
                self._bytes -= _size(record)
                self.known_since_ms = max(self.known_since_ms, ends_ms(record, None) + 1)
                dropped.append(Keep(f"attachment/{number:012x}", None))
        if dropped:
            dropped.append(Keep("since/attachment", encode_record(SinceRecord(self.known_since_ms))))
        return dropped


def _size(record: AttachmentRecord) -> int:
    """The approximate size of a record in memory."""
    ticks = len(record.starts) + len(record.ends)
    return _RECORD_BYTES + len(record.subscriber) + len(record.selector.encode()) + _TICK_BYTES * ticks


def starts_ms(record: AttachmentRecord, pubends: frozenset[str] | None) -> int:
    """The earliest time of a message the subscriber may have received from one of the pubends."""
    starts = [tick >> _TICK_SHIFT for pubend, tick in record.starts.items() if pubends is None or pubend in pubends]
    return min([record.attached_ms, *starts])


def ends_ms(record: AttachmentRecord, pubends: frozenset[str] | None) -> int:
    """The latest time of a message the subscriber may have received from one of the pubends."""
    if record.detached_ms is None:
        return 2**63
    named = {pubend: tick >> _TICK_SHIFT for pubend, tick in record.ends.items()}
    if pubends is not None and pubends <= named.keys():
        return max(named[pubend] for pubend in pubends) if pubends else record.detached_ms
    return max([record.detached_ms, *named.values()])
