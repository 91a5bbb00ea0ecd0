"""The tracking strategies behind one interface: ``null``, ``exact`` and ``bloom`` ([Tracking] sections 3.2 and 5).

A broker records per batch, in three phases; the strategy hands out named values, which the broker makes durable when it
can and then confirms. The data path never waits for that: when too much is waiting, filters are dropped, and a gap
record says which timestamps they had.

Names of stored values: ``mark`` (everything is stored up to then), ``since/filter`` (filters are known since then),
``filter/<key>#<id>``, ``gap/<reason>/<key>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from penstock.protocol.status import TrackingStatus
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.exact import ExactRecords
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.records import GapRecord, Keep
from penstock.tracking.stored import FilterHeader

__all__ = ["MARK", "Matching", "NullTracking", "Tracking", "delivery_key", "filter_name"]

MARK: Final = "mark"
"""The name of the mark."""


@dataclass(slots=True)
class Matching:
    """Where a broker must look for a message in one history, and its late history."""

    memory: list[tuple[FilterHeader, BloomFilter | ExactRecords]] = field(default_factory=list)
    """Filters that can be asked at once."""
    stored: list[FilterHeader] = field(default_factory=list)
    """Filters that must be loaded first."""
    gaps: list[GapRecord] = field(default_factory=list)
    """Gaps that make a "no" meaningless."""
    is_known: bool = True
    """Whether the history reaches back that far at all."""


class Tracking(Protocol):
    """The strategy, as a broker uses it."""

    kind: str
    is_due: bool
    """Whether there is something to take now."""

    def is_old(self, message_id: bytes) -> bool:
        """Whether a message is so old that the mark on disk must be lowered at once, in case of a crash."""

    def expect(self, *, now_ms: int) -> None:
        """Start the persistence interval now, for an event that will be recorded in a moment."""

    def record_published(self, ids: bytes, *, now_ms: int) -> None:
        """Record messages that local publishers published, 16 bytes each."""

    def record_routed(self, origin: int, ids: bytes, *, now_ms: int) -> None:
        """Record messages from an origin that passed through this broker."""

    def record_delivered(self, origin: int, ids: bytes, subscribers: Sequence[int], *, now_ms: int) -> None:
        """Record deliveries: one subscriber's key (`hashing.subscriber_key`) per id; an id may occur many times."""

    def next_deadline(self) -> int | None:
        """When ``on_deadline`` is due next."""

    def on_deadline(self, *, now_ms: int) -> None:
        """Do everything that is due now."""

    def stop(self, *, now_ms: int) -> None:
        """Hand out everything for a clean shutdown; nothing may be recorded after it."""

    def take(self) -> list[Keep]:
        """The values to make durable, in this order."""

    def on_kept(self, values: Sequence[Keep]) -> None:
        """Confirms that these values, as they were taken, are durable."""

    def matching(self, key: HistoryKey, timestamp_ms: int, *, now_ms: int) -> Matching:
        """Where to look for a message of this time in one history."""

    def waiting_value(self, name: str) -> bytes | None:
        """A value handed out but not confirmed as durable: the store may not have it yet."""

    def status(self) -> TrackingStatus:
        """Figures for the operator."""


class NullTracking:
    """Records nothing and knows nothing."""

    kind = "null"

    def __init__(self) -> None:
        self._taken = self.is_due = False

    def is_old(self, message_id: bytes) -> bool:  # noqa: ARG002
        """Always false."""
        return False

    def expect(self, *, now_ms: int) -> None:
        """Does nothing."""

    def record_published(self, ids: bytes, *, now_ms: int) -> None:
        """Does nothing."""

    def record_routed(self, origin: int, ids: bytes, *, now_ms: int) -> None:
        """Does nothing."""

    def record_delivered(self, origin: int, ids: bytes, subscribers: Sequence[int], *, now_ms: int) -> None:
        """Does nothing."""

    def next_deadline(self) -> int | None:
        """Never."""
        return None

    def on_deadline(self, *, now_ms: int) -> None:
        """Does nothing."""

    def stop(self, *, now_ms: int) -> None:
        """Does nothing."""

    def take(self) -> list[Keep]:
        """Deletes the mark of an earlier run, once, so that a later run does not assume that all was recorded."""
        taken, self._taken = self._taken, True
        return [] if taken else [Keep(MARK, None)]

    def on_kept(self, values: Sequence[Keep]) -> None:
        """Does nothing."""

    def matching(self, key: HistoryKey, timestamp_ms: int, *, now_ms: int) -> Matching:  # noqa: ARG002
        """Unknown for any time."""
        return Matching(is_known=False)

    def waiting_value(self, name: str) -> bytes | None:  # noqa: ARG002
        """Always None."""
        return None

    def status(self) -> TrackingStatus:
        """Only the name of the strategy."""
        return TrackingStatus(strategy=self.kind)


def delivery_key(origin: int, subscriber: int) -> HistoryKey:
    """The paper's Hb,s: the history of one subscriber, identified by its key."""
    return HistoryKey(Phase.DELIVER, origin, f"{subscriber:016x}")


def filter_name(header: FilterHeader) -> str:
    """The name under which a filter is stored."""
    return f"filter/{header.name}"
