"""Finds who received messages at one broker, for a block of messages at once ([Tracking] section 3.3).

Only checks subscribers whose attachments may have covered a message: from its timestamp until keys were last added to a
filter that has it, with the skew around both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log1p
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.pipeline.trace.facts import BrokerFacts
from penstock.pipeline.trace.paths import TimedSlice, timed_slices
from penstock.pipeline.trace.stored import LakeFilter, spans_of_index
from penstock.pipeline.trace.timeline import Timeline
from penstock.tracking.hashing import Column
from penstock.tracking.sizing import fpp

__all__ = ["Block", "BrokerDeliveries", "Received", "log_silence"]

_PAIRS: Final = 65_536
"""How many pairs of message and subscriber are hashed at once."""

Rows: TypeAlias = NDArray[np.intp]
Covered: TypeAlias = list[NDArray[np.bool_] | None]
"""By subscriber, the messages it may have received; None for all of them."""


@dataclass(slots=True, frozen=True)
class Block:
    """A block of messages, as columns."""

    high: Column
    low: Column
    times: NDArray[np.int64]
    segments: NDArray[np.intp]
    """Segments of the filters' timeline."""

    def at(self, rows: Rows) -> Block:
        """Select rows of the block."""
        return Block(self.high[rows], self.low[rows], self.times[rows], self.segments[rows])


@dataclass(slots=True, frozen=True)
class Received:
    """The deliveries of a block of messages at one broker."""

    hits: NDArray[np.bool_]
    """Claimed deliveries by message and subscriber."""
    checked: NDArray[np.int64]
    """By message, the number of subscribers checked."""
    log_right: NDArray[np.float64]
    """By message, the log of the probability that none of these is claimed by chance."""
    expected: NDArray[np.float64]
    """By message, the expected number of false receivers."""


class BrokerDeliveries:
    """The subscriber histories of one broker for messages of one origin."""

    def __init__(self, broker: BrokerFacts, filters: Sequence[LakeFilter], timeline: Timeline, slack_ms: int) -> None:
        self._slack_ms = slack_ms
        self._spans = [spans for _, spans in broker.subscribers.values()]
        self.names = tuple(broker.subscribers)
        """The subscribers, in order."""
        self._keys = np.array([key for key, _ in broker.subscribers.values()], dtype=np.uint64)
        self._parts = [f"{key:016x}" if broker.per_subscriber else "" for key in self._keys.tolist()]
        by_part: dict[str, list[LakeFilter]] = {part: [] for part in self._parts}
        for each in filters:
            if each.header.key.part in by_part and not each.is_damaged:
                by_part[each.header.key.part].append(each)
        self._slices = {part: timed_slices(own, timeline) for part, own in by_part.items()}
        self._logs = {part: timeline.sums(log_silence(own)) for part, own in by_part.items()}
        self._exact = [each for own in by_part.values() for each in own if each.header.kind == "exact"]

    def received(self, block: Block, until_ms: Callable[[], NDArray[np.int64]]) -> Received:
        """Find who received messages that were, or may have been, here; ``until_ms`` is called only if it matters."""
        covered = self._covered(block.times, until_ms)
        size = len(block.times)
        hits = np.zeros((len(self.names), size), dtype=np.bool_)
        checked, logs, expected = np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(size)
        for part, places in self._by_part(covered).items():
            for some in self._batches(places, size):
                self._ask(hits, self._slices[part], some, block)
            own = [covered[place] for place in places]
            count = np.full(size, sum(each is None for each in own), dtype=np.int64)
            for place, each in zip(places, own, strict=True):
                if each is not None:
                    hits[place] &= each
                    count += each
            log = self._logs[part]
            checked += count
            logs += count * log[block.segments]
            expected += (count - hits[places].sum(axis=0)) * -np.expm1(log)[block.segments]
        if self._exact:
            self._add_records(hits, covered, block)
        return Received(np.ascontiguousarray(hits.T), checked, logs, expected)

    def _covered(self, times: NDArray[np.int64], until_ms: Callable[[], NDArray[np.int64]]) -> Covered:
        """By subscriber, the messages it may have received; None for all of them."""
        first_ms = times - self._slack_ms
        earliest, latest = int(first_ms.min()), int(first_ms.max())
        last_ms: NDArray[np.int64] | None = None
        found: Covered = []
        for spans in self._spans:
            if any(start <= earliest and latest <= end for start, end in spans):
                found.append(None)
                continue
            if last_ms is None:
                last_ms = np.maximum(times, until_ms()) + self._slack_ms
            is_covered = np.zeros(len(times), dtype=np.bool_)
            for start, end in spans:
                is_covered |= (start <= last_ms) & (first_ms <= end)
            found.append(is_covered)
        return found

    def _by_part(self, covered: Covered) -> dict[str, list[int]]:
        """Subscribers that may have received something, by the history that records it."""
        found: dict[str, list[int]] = {}
        for place, (part, each) in enumerate(zip(self._parts, covered, strict=True)):
            if each is None or each.any():
                found.setdefault(part, []).append(place)
        return found

    def _batches(self, places: list[int], rows: int) -> Iterator[list[int]]:
        """Split subscribers into batches worth checking at once."""
        size = max(_PAIRS // max(rows, 1), 1)
        for start in range(0, len(places), size):
            yield places[start : start + size]

    def _ask(self, hits: NDArray[np.bool_], slices: Sequence[TimedSlice], places: list[int], block: Block) -> None:
        """Mark by subscriber and message whether a filter claims the delivery."""
        count = len(places)
        keys = self._keys[places][:, None]
        for start in range(0, len(block.times), _PAIRS):
            part = slice(start, start + _PAIRS)
            high = (block.high[part] ^ keys).reshape(-1)
            low = block.low[part] if count == 1 else np.tile(block.low[part], count)
            for timed in slices:
                wanted = timed.masks[block.segments[part]]
                if wanted.any():
                    claimed = timed.bits.has_any(high, low, wanted if count == 1 else np.tile(wanted, count))
                    hits[places, part] |= claimed.reshape(count, -1)

    def _add_records(self, hits: NDArray[np.bool_], covered: Covered, block: Block) -> None:
        """Add hits from exact records, which name message and subscriber."""
        rows: dict[tuple[int, int], list[int]] = {}
        for row, each in enumerate(zip(block.high.tolist(), block.low.tolist(), strict=True)):
            rows.setdefault(each, []).append(row)
        places = {key: place for place, key in enumerate(self._keys.tolist())}
        for filter_ in self._exact:
            highs, lows, keys = filter_.stored.exact().columns()
            assert keys is not None, "a record of a delivery names its subscriber"
            for high, low, key in zip(highs.tolist(), lows.tolist(), keys.tolist(), strict=True):
                place = places.get(key)
                for row in rows.get((high, low), ()) if place is not None else ():
                    assert place is not None
                    is_covered = covered[place]
                    hits[place, row] |= is_covered is None or bool(is_covered[row])


def log_silence(filters: Sequence[LakeFilter]) -> list[tuple[tuple[tuple[int, int], ...], float]]:
    """For each filter, its spans and the log of the probability that it does not claim an unseen key."""
    found = []
    for each in filters:
        header = each.header
        if header.kind == "bloom" and not each.is_damaged:
            error = fpp(header.shape.m, header.count, header.shape.k)
            found.append((spans_of_index(header.index), log1p(-min(error, 1 - 1e-12))))
    return found
