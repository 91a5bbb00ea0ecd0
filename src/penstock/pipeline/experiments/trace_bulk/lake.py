"""Generates a lake as the brokers of a large overlay would have shipped it, to measure how fast bulk tracing is.

Brokers form a tree, and some of them publish; all have subscribers; each topic's subscribers sit at a few brokers.
Every message is published, routed and delivered as its topic says; the events are written as Bloom histories or, on
request, as exact records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.live.shipping.cargo import Cargo, micros
from penstock.live.shipping.files import LakeFiles
from penstock.model import lake_tables as tables
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.hashing import HASH_VERSION, Column, mixed_columns, subscriber_key
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

__all__ = ["START_MS", "LakeSize", "TracedOverlay", "slabs", "topics_of", "write_lake"]

START_MS: Final = 1_794_700_800_000
"""2026-11-15, 00:00."""
PER_MS: Final = 5
"""Messages per origin and millisecond: 5,000 a second."""

_PUBLISHERS: Final = np.uint64(200)
_STRIDE: Final = np.uint64(37)
_UNSTRIDE: Final = np.uint64(173)
"""The inverse of the stride modulo the number of publishers."""
_SLAB: Final = 200_000
"""Messages of one origin that are generated at once."""
_FOREVER_MS: Final = 2**62
_LATE_MS: Final = 3_600_000
_SPAN_BYTES: Final = ">q"


@dataclass(slots=True, frozen=True)
class LakeSize:
    """The size of a lake, in bytes."""

    messages: int
    events: int
    raw: int
    """Bytes of filters or records, before compression."""
    compressed: int
    """Bytes of the files that hold them."""


class TracedOverlay:
    """Where brokers and subscribers are, and how each topic's messages are routed."""

    def __init__(self, seed: int, *, brokers: int, subscribers: int, topics: int, origins: int) -> None:
        rng = Random(seed)
        self.seed = seed
        self.names = [f"b{number:02d}" for number in range(brokers)]
        self.parents = [0, *((number - 1) // 3 for number in range(1, brokers))]
        each = max(subscribers // brokers, 1)
        self.subscribers = {name: [f"sub-{name}-{place:03d}" for place in range(each)] for name in self.names}
        self.origins = rng.sample(range(brokers), min(origins, brokers))
        self.wanted: list[dict[int, list[int]]] = []
        """By topic and broker, the indexes of the subscribers that want the topic."""
        for _ in range(topics):
            homes = rng.sample(range(brokers), min(3, brokers))
            shares = [4, 3, 3]
            self.wanted.append(
                {
                    home: sorted(rng.sample(range(each), min(share, each)))
                    for home, share in zip(homes, shares, strict=False)
                }
            )

    def number(self, broker: int) -> int:
        """The broker's number in message ids."""
        return broker + 1

    def routed(self, origin: int, topic: int) -> set[int]:
        """The brokers that a topic's messages reach from an origin, excluding the origin."""
        found: set[int] = set()
        for home in self.wanted[topic]:
            up, down = self._to_root(origin), self._to_root(home)
            common = next(each for each in up if each in down)
            found |= {*up[: up.index(common) + 1], *down[: down.index(common)]}
        return found - {origin}

    def _to_root(self, broker: int) -> list[int]:
        return [0] if broker == 0 else [broker, *self._to_root(self.parents[broker])]

    def links(self) -> Iterator[tuple[int, int]]:
        """Each link, once from either end."""
        for child, parent in enumerate(self.parents[1:], start=1):
            yield child, parent
            yield parent, child


def slabs(overlay: TracedOverlay, messages: int) -> Iterator[tuple[int, Column, Column]]:
    """Yield all messages in chunks: origin and halves of ids; each origin's in order of time."""
    share = -(-messages // len(overlay.origins))
    for place, origin in enumerate(overlay.origins):
        left = min(share, messages - place * share)
        for start in range(0, left, _SLAB):
            numbers = np.arange(start, min(start + _SLAB, left), dtype=np.uint64)
            milliseconds = numbers // np.uint64(PER_MS)
            # Each millisecond has five publishers, pseudo-random and all different.
            publishers = (_chance(milliseconds, 1) + numbers % np.uint64(PER_MS) * _STRIDE) % _PUBLISHERS
            high = publishers << np.uint64(32) | np.uint64(overlay.number(origin))
            yield origin, high, (milliseconds + np.uint64(START_MS)) << np.uint64(16)


def topics_of(overlay: TracedOverlay, high: Column, low: Column) -> NDArray[np.int64]:
    """Derive the topics of messages from their ids."""
    milliseconds = (low >> np.uint64(16)) - np.uint64(START_MS)
    ahead = ((high >> np.uint64(32)) + _PUBLISHERS - _chance(milliseconds, 1) % _PUBLISHERS) % _PUBLISHERS
    numbers = milliseconds * np.uint64(PER_MS) + ahead * _UNSTRIDE % _PUBLISHERS
    return (_chance(numbers, 2 + overlay.seed) % np.uint64(len(overlay.wanted))).astype(np.int64)


def _chance(numbers: Column, salt: int) -> Column:
    """Pseudo-random numbers, the same on every call."""
    return mixed_columns(numbers, np.full(len(numbers), salt, dtype=np.uint64))[0] >> np.uint64(8)


def write_lake(
    folder: Path, overlay: TracedOverlay, settings: TrackingSettings, messages: int, *, exact: bool = False
) -> LakeSize:
    """Write everything that brokers would have shipped about this many messages."""
    writer = _Writer(folder, overlay, settings, exact=exact)
    for origin, high, low in slabs(overlay, messages):
        writer.add(origin, high, low, topics_of(overlay, high, low))
    writer.close(last_ms=START_MS + messages)
    table = tables.RECORDS if exact else tables.HISTORIES
    files = (folder / table.name).rglob("*.parquet")
    return LakeSize(messages, writer.events, writer.raw_bytes, sum(path.stat().st_size for path in files))


@dataclass(slots=True)
class _Filling:
    """A history and its keys that are not in a filter yet."""

    key: HistoryKey
    shape: FilterShape
    high: list[Column] = field(default_factory=list)
    low: list[Column] = field(default_factory=list)
    waiting: int = 0
    filters: int = 0


class _Writer:
    """Writes histories or records to files."""

    def __init__(self, folder: Path, overlay: TracedOverlay, settings: TrackingSettings, *, exact: bool) -> None:
        self._overlay, self._exact = overlay, exact
        self._shapes = {phase: settings.options(phase).shape for phase in Phase}
        self._files = [LakeFiles(folder, name) for name in overlay.names]
        self._cargo = [Cargo() for _ in overlay.names]
        self._sequences = [0] * len(overlay.names)
        self._histories: dict[tuple[int, HistoryKey], _Filling] = {}
        self._keys = [
            np.array([subscriber_key(name) for name in overlay.subscribers[broker]], dtype=np.uint64)
            for broker in overlay.names
        ]
        self._routes = {
            origin: [overlay.routed(origin, topic) for topic in range(len(overlay.wanted))]
            for origin in overlay.origins
        }
        self.events = self.raw_bytes = 0

    def add(self, origin: int, high: Column, low: Column, topics: NDArray[np.int64]) -> None:
        """Record the events of some messages of one origin."""
        number = self._overlay.number(origin)
        self._record(origin, HistoryKey(Phase.PUBLISH, number), high, low, None)
        for broker in range(len(self._overlay.names)):
            passes = np.array([broker in routes for routes in self._routes[origin]])[topics]
            self._record(broker, HistoryKey(Phase.ROUTE, number), high[passes], low[passes], None)
            self._deliver(broker, number, high, low, topics)
        for broker in range(len(self._overlay.names)):
            self._ship(broker)

    def _deliver(self, broker: int, number: int, high: Column, low: Column, topics: NDArray[np.int64]) -> None:
        wants = np.zeros((len(self._overlay.wanted), len(self._keys[broker])), dtype=np.bool_)
        for topic, wanted in enumerate(self._overlay.wanted):
            wants[topic, wanted.get(broker, [])] = True
        rows, places = np.nonzero(wants[topics])
        keys = self._keys[broker][places]
        self._record(broker, HistoryKey(Phase.DELIVER, number), high[rows], low[rows], keys)

    def _record(self, broker: int, key: HistoryKey, high: Column, low: Column, subscribers: Column | None) -> None:
        self.events += len(high)
        if not len(high):
            return
        if self._exact:
            self._add_records(broker, key, high, low, subscribers)
            return
        filling = self._histories.setdefault((broker, key), _Filling(key, self._shapes[key.phase]))
        filling.high.append(high if subscribers is None else high ^ subscribers)
        filling.low.append(low)
        filling.waiting += len(high)
        if filling.waiting >= filling.shape.n:
            self._fill(broker, filling, is_last=False)

    def _fill(self, broker: int, filling: _Filling, *, is_last: bool) -> None:
        high, low, n = np.concatenate(filling.high), np.concatenate(filling.low), filling.shape.n
        whole = len(high) if is_last else len(high) - len(high) % n
        for start in range(0, whole, n):
            self._add_filter(broker, filling, high[start : start + n], low[start : start + n])
        filling.high, filling.low, filling.waiting = [high[whole:]], [low[whole:]], len(high) - whole

    def _add_filter(self, broker: int, filling: _Filling, high: Column, low: Column) -> None:
        made, key, shape = BloomFilter(filling.shape), filling.key, filling.shape
        made.add_columns(high, low)
        filling.filters += 1
        first_ms, last_ms = int(low.min()) >> 16, int(low.max()) >> 16
        self.raw_bytes += shape.size_bytes
        named = str(key), str(key.phase), key.origin, key.part, key.is_late, filling.filters, 1
        shaped = False, HASH_VERSION, shape.m, shape.k, shape.n, len(high)
        times = micros(first_ms), micros(last_ms + 1), first_ms, last_ms
        self._cargo[broker].add(tables.HISTORIES, first_ms, *named, *shaped, *times, b"", made.to_bytes())

    def _add_records(self, broker: int, key: HistoryKey, high: Column, low: Column, subscribers: Column | None) -> None:
        count = len(high)
        self.raw_bytes += count * (16 if subscribers is None else 24)
        first_ms = int(low.min()) >> 16
        same = {"history": str(key), "phase": str(key.phase), "origin": key.origin, "part": "", "is_late": False}
        same |= {"filter_id": first_ms, "generation": 1}
        own = {
            "place": np.arange(count, dtype=np.int64),
            "id_high": high.view(np.int64),
            "id_low": low.view(np.int64),
            "subscriber_key": [None] * count if subscribers is None else subscribers.view(np.int64),
        }
        columns = {name: [value] * count for name, value in same.items()}
        self._cargo[broker].add_block(tables.RECORDS, first_ms, {**columns, **own}, count)

    def _ship(self, broker: int) -> None:
        cargo, files = self._cargo[broker], self._files[broker]
        if cargo:
            self._sequences[broker] += 1
            staged = [files.stage(parcel, 1, self._sequences[broker]) for parcel in cargo]
            files.move([(each.path, each.place) for each in staged])
            self._cargo[broker] = Cargo()

    def close(self, *, last_ms: int) -> None:
        """Write the remaining keys, and the other tables that brokers ship."""
        for (broker, _), filling in self._histories.items():
            if filling.waiting:
                self._fill(broker, filling, is_last=True)
        at = micros(START_MS - 1_000)
        for broker, name in enumerate(self._overlay.names):
            cargo = self._cargo[broker]
            for number, subscriber in enumerate(self._overlay.subscribers[name], start=1):
                key = int(self._keys[broker][number - 1].astype(np.int64))
                cargo.add(tables.ATTACHMENTS, START_MS, number, subscriber, key, at, None, [], [])
            cargo.add(tables.GAPS, START_MS, "filter", "since", _span(0, START_MS - 1_001), at)
            cargo.add(tables.GAPS, START_MS, "", "open", _span(last_ms + _LATE_MS, _FOREVER_MS), at)
            cargo.add(tables.TOPOLOGY, START_MS, at, "start", "")
        for broker, neighbour in self._overlay.links():
            name = self._overlay.names[neighbour]
            self._cargo[broker].add(tables.TOPOLOGY, START_MS, at, "link-up", name)
        for broker in range(len(self._overlay.names)):
            self._ship(broker)


def _span(first_ms: int, last_ms: int) -> bytes:
    return np.array([first_ms, last_ms], dtype=_SPAN_BYTES).tobytes()
