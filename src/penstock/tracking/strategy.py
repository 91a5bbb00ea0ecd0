"""The tracking strategies behind one interface: ``null``, ``exact`` and ``bloom`` ([Tracking] sections 3.2 and 5).

A broker records per batch, in three phases; what is to be stored comes out as named values, which the broker makes
durable when it can and confirms. The data path never waits for that: when too much waits, filters are dropped, and a
gap record says which timestamps they had.

What is stored, by name: ``mark`` (up to when all is stored), ``since/filter`` (since when), ``filter/<key>#<id>``,
``gap/<reason>/<key>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

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
    """Why a no is worth nothing."""
    is_known: bool = True
    """Whether the history reaches back so far at all."""


class Tracking(Protocol):
    """What a broker asks of its strategy."""

    kind: str
    is_due: bool
    """Whether something is to be taken now."""

    def is_old(self, message_id: bytes) -> bool:
        """Whether a message that comes by is so old that a crash must be told of it at once."""

    def expect(self, *, now_ms: int) -> None:
        """Something has happened that will be recorded in a moment: it is to be stored as if it had been now."""

    def record_published(self, ids: bytes, *, now_ms: int) -> None:
        """Local publishers have published these messages, 16 bytes each."""

    def record_routed(self, origin: int, ids: bytes, *, now_ms: int) -> None:
        """Messages that were published at a broker have come by."""

    def record_delivered(self, origin: int, ids: bytes, subscribers: Sequence[int], *, now_ms: int) -> None:
        """Messages go to subscribers: one key (`hashing.subscriber_key`) for each id; an id may come many times."""

    def next_deadline(self) -> int | None:
        """When it wants to be woken."""

    def on_deadline(self, *, now_ms: int) -> None:
        """It is that time."""

    def stop(self, *, now_ms: int) -> None:
        """The broker stops in order: everything is handed out, and nothing will be recorded any more."""

    def take(self) -> list[Keep]:
        """What is to be made durable, in this order."""

    def on_kept(self, values: Sequence[Keep]) -> None:
        """These values, as they were taken, are durable."""

    def matching(self, key: HistoryKey, timestamp_ms: int, *, now_ms: int) -> Matching:
        """Where to look for a message of this time in one history."""

    def waiting_value(self, name: str) -> bytes | None:
        """A value that was handed out and is not known to be durable: the store may not have it yet."""

    def status(self) -> dict[str, object]:
        """Figures for the operator."""


class NullTracking:
    """Records nothing, and knows nothing."""

    kind = "null"

    def __init__(self) -> None:
        self._taken = self.is_due = False

    def is_old(self, message_id: bytes) -> bool:  # noqa: ARG002
        """No."""
        return False

    def expect(self, *, now_ms: int) -> None:
        """Nothing happens."""

    def record_published(self, ids: bytes, *, now_ms: int) -> None:
        """Nothing happens."""

    def record_routed(self, origin: int, ids: bytes, *, now_ms: int) -> None:
        """Nothing happens."""

    def record_delivered(self, origin: int, ids: bytes, subscribers: Sequence[int], *, now_ms: int) -> None:
        """Nothing happens."""

    def next_deadline(self) -> int | None:
        """Never."""
        return None

    def on_deadline(self, *, now_ms: int) -> None:
        """Nothing happens."""

    def stop(self, *, now_ms: int) -> None:
        """Nothing happens."""

    def take(self) -> list[Keep]:
        """Once: the mark of an earlier life goes, so that a later one does not think that all was recorded."""
        taken, self._taken = self._taken, True
        return [] if taken else [Keep(MARK, None)]

    def on_kept(self, values: Sequence[Keep]) -> None:
        """Nothing happens."""

    def matching(self, key: HistoryKey, timestamp_ms: int, *, now_ms: int) -> Matching:  # noqa: ARG002
        """Unknown, at any time."""
        return Matching(is_known=False)

    def waiting_value(self, name: str) -> bytes | None:  # noqa: ARG002
        """None waits."""
        return None

    def status(self) -> dict[str, object]:
        """Only that it is off."""
        return {"strategy": self.kind}


def delivery_key(origin: int, subscriber: int) -> HistoryKey:
    """The paper's Hb,s: the history of one subscriber, for which its key stands."""
    return HistoryKey(Phase.DELIVER, origin, f"{subscriber:016x}")


def filter_name(header: FilterHeader) -> str:
    """The name under which a filter is stored."""
    return f"filter/{header.name}"
