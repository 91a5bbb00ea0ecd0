"""A history: a sequence of filters with their timestamps, the current one in memory ([Tracking] section 3.1).

Identifiers wait in a small staging area and enter the current filter in batches, which takes a tenth of the time. They
all belong to the current filter, as the area is emptied at the very message that fills the filter.

Deviations from the paper:

- A filter that must be stored before it is full keeps being filled; each stored copy is a new generation, which
  replaces the one before (future work in section 7).
- Messages with future timestamps become singletons, as old ones do: a range must not run ahead either.
- When there are too many singletons, old messages go to a late history of the same key, which has singletons only.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.tracking.bloom import BloomFilter
from penstock.tracking.exact import ExactRecords
from penstock.tracking.hashing import HASH_VERSION, Column, columns
from penstock.tracking.keys import HistoryKey
from penstock.tracking.sizing import FilterShape
from penstock.tracking.spans import TimeIndex
from penstock.tracking.stored import FilterHeader, FilterKind, StoredFilter

__all__ = ["History", "HistoryOptions"]

_ID_BYTES: Final = 16
_TIMESTAMP_SHIFT: Final = np.uint64(16)


@dataclass(slots=True, frozen=True)
class HistoryOptions:
    """The options shared by the histories of one phase."""

    kind: FilterKind
    shape: FilterShape
    late_ms: int
    """Ts + Tj: a timestamp further before the beginning of the current filter, or further ahead of now, is late."""
    singletons_max: int = 64
    staged_max: int = 256
    """The most identifiers in the staging area."""
    keep_filling: bool = True
    """Whether a filter stored before it is full keeps being filled."""


class History:
    """Records one kind of event at one broker, for the messages of one origin."""

    def __init__(self, key: HistoryKey, options: HistoryOptions, *, first_id: int = 0) -> None:
        self.key = key
        self._options = options
        self._staged = bytearray()
        self._subscribers = array("Q")
        self._next_id = first_id
        self._late: History | None = None
        self._sealed: list[StoredFilter] = []
        self._opened_ms: int | None = None
        self._filter_id = self._generation = self._room = 0
        self.added_ms = 0
        """The broker's clock when something was recorded last."""
        self.is_dirty = False
        """Whether the current filter holds anything never handed out."""
        self.has_news = False
        """Whether a filter has changed, and may have been sealed, since `take`."""
        self._begin()

    # --- recording

    def record(self, ids: bytes, subscribers: Sequence[int] | None = None, *, now_ms: int) -> None:
        """Add messages, 16 bytes each; for deliveries, with a subscriber's key for each."""
        size = len(ids)
        assert size % _ID_BYTES == 0, f"{size} bytes are no identifiers"
        assert subscribers is None or len(subscribers) * _ID_BYTES == size
        if self._opened_ms is None:
            self._open(now_ms)
        self.added_ms, self.is_dirty = now_ms, True
        if size < self._room:
            self._staged += ids
            self._room -= size
            if subscribers is not None:
                self._subscribers.extend(subscribers)
        else:
            self._record_pieces(ids, subscribers, now_ms)

    def _record_pieces(self, ids: bytes, subscribers: Sequence[int] | None, now_ms: int) -> None:
        """Add messages that fill the staging area, or the filter, perhaps more than once."""
        self._absorb(now_ms)
        place, end = 0, len(ids)
        while place < end:
            if self._opened_ms is None:
                self._open(now_ms)
                self.is_dirty = True
            # A batch larger than the staging area need not pass through it in portions.
            until = min(end, place + _ID_BYTES * (self._options.shape.n - self._filter.count))
            self._staged += ids[place:until]
            if subscribers is not None:
                self._subscribers.extend(subscribers[place // _ID_BYTES : until // _ID_BYTES])
            self._absorb(now_ms)
            place = until

    def persist(self, *, now_ms: int) -> None:
        """Make everything recorded since the last persistence interval ready to be stored."""
        self._absorb(now_ms)
        if self._late is not None:
            self._late.persist(now_ms=now_ms)
        if not self._filter.count:
            # Everything recorded was late.
            self.is_dirty = False
        if not self.is_dirty:
            return
        if self._options.keep_filling:
            self._generation += 1
            self._sealed.append(self._stored(is_open=True))
            self.is_dirty = False
        else:
            self._seal()

    def seal(self, *, now_ms: int) -> None:
        """End the current filter, however full it is."""
        self._absorb(now_ms)
        if self._late is not None:
            self._late.seal(now_ms=now_ms)
        if self._opened_ms is not None:
            self._seal()

    def take(self) -> list[StoredFilter]:
        """The filters to store, in order; only the newest generation of an open one."""
        taken, self._sealed, self.has_news = self._sealed, [], False
        if self._late is not None:
            taken += self._late.take()
        newest = {each.header.name: each for each in taken}
        return list(newest.values())

    def resume(self, stored: StoredFilter) -> bool:
        """Continue an open filter of an earlier run; returns whether that is possible."""
        header = stored.header
        own_key = self.key.late if header.key.is_late and not self.key.is_late else self.key
        assert header.key == own_key, f"{header.key} is not {own_key}"
        if own_key != self.key:
            return self._late_history().resume(stored)
        options = self._options
        same = (header.kind, header.shape, header.hash_version) == (options.kind, options.shape, HASH_VERSION)
        if not (header.is_open and same and options.keep_filling and self._opened_ms is None):
            return False
        self._opened_ms, self.added_ms = header.opened_ms, header.added_ms
        self._filter_id, self._generation = header.filter_id, header.generation
        self._next_id = max(self._next_id, header.filter_id + 1)
        self._index = TimeIndex(header.index.range, header.index.singletons)
        self._filter = _container(header.kind, header.shape, stored.body, header.count)
        self._measure_room()
        return True

    # --- asking

    @property
    def has_sealed(self) -> bool:
        """Whether a filter is ready to be stored."""
        return bool(self._sealed) or (self._late is not None and self._late.has_sealed)

    @property
    def is_waiting(self) -> bool:
        """Whether anything recorded has not been handed out."""
        return self.is_dirty or self.has_sealed or (self._late is not None and self._late.is_waiting)

    @property
    def size_bytes(self) -> int:
        """Memory of the current filters and staging areas, as the paper counts it."""
        own = self._options.shape.size_bytes if self._options.kind == "bloom" else self._filter.count * _ID_BYTES
        return own + len(self._staged) + (0 if self._late is None else self._late.size_bytes)

    def current(self, *, now_ms: int) -> list[tuple[FilterHeader, BloomFilter | ExactRecords]]:
        """The filters in memory with everything recorded: its own and the late history's."""
        self._absorb(now_ms)
        found = [] if self._opened_ms is None else [(self._header(is_open=True), self._filter)]
        return found if self._late is None else [*found, *self._late.current(now_ms=now_ms)]

    def check_invariants(self) -> None:
        """Fails if a bound is exceeded."""
        options = self._options
        assert self._filter.count + len(self._staged) // _ID_BYTES <= options.shape.n
        assert len(self._staged) <= options.staged_max * _ID_BYTES
        assert len(self._index.singletons) <= options.singletons_max
        assert not self._subscribers or len(self._subscribers) * _ID_BYTES == len(self._staged)
        assert self._opened_ms is not None or not self._filter.count
        if self._late is not None:
            self._late.check_invariants()

    # --- filters

    def _begin(self) -> None:
        self._opened_ms, self._generation, self.is_dirty = None, 0, False
        self._index = TimeIndex()
        self._filter = _container(self._options.kind, self._options.shape)
        self._measure_room()

    def _open(self, now_ms: int) -> None:
        # Ids ascend with the clock, so that those of different runs differ; a clock set back does not matter.
        self._opened_ms = self.added_ms = now_ms
        self._filter_id = max(self._next_id, now_ms)
        self._next_id = self._filter_id + 1

    def _seal(self) -> None:
        if self._filter.count:
            self._generation += 1
            self._sealed.append(self._stored(is_open=False))
        self._begin()

    def _measure_room(self) -> None:
        options = self._options
        self._room = _ID_BYTES * min(options.staged_max, options.shape.n - self._filter.count)

    def _absorb(self, now_ms: int) -> None:
        """Move staged messages into the filter, and seal it if it is full."""
        if self._staged:
            self.has_news = True
            high, low = columns(bytes(self._staged))
            subscribers = np.array(self._subscribers, dtype=np.uint64) if self._subscribers else None
            self._staged.clear()
            del self._subscribers[:]
            self._add(high, low, subscribers, now_ms)
        if self._opened_ms is not None and self._filter.count >= self._options.shape.n:
            self._seal()
        self._measure_room()

    def _add(self, high: Column, low: Column, subscribers: Column | None, now_ms: int) -> None:
        timestamps = low >> _TIMESTAMP_SHIFT
        if self.key.is_late:
            self._index.join_singletons(np.unique(timestamps).tolist(), self._options.singletons_max)
        else:
            assert self._opened_ms is not None
            is_fresh = timestamps >= np.uint64(max(self._opened_ms - self._options.late_ms, 0))
            is_fresh &= timestamps <= np.uint64(now_ms + self._options.late_ms)
            fresh = timestamps[is_fresh]
            if len(fresh):
                self._index.widen(int(fresh.min()), int(fresh.max()))
            if len(fresh) < len(timestamps):
                late = np.unique(timestamps[~is_fresh]).tolist()
                if not self._index.add_singletons(late, self._options.singletons_max):
                    self._late_history().record_columns(*_rows(~is_fresh, high, low, subscribers), now_ms=now_ms)
                    high, low, subscribers = _rows(is_fresh, high, low, subscribers)
        _fill(self._filter, high, low, subscribers)

    def record_columns(self, high: Column, low: Column, subscribers: Column | None, *, now_ms: int) -> None:
        """Add messages that are already split into columns."""
        ids = np.stack((high, low), axis=1).astype(">u8").tobytes()
        self.record(ids, None if subscribers is None else subscribers.tolist(), now_ms=now_ms)

    def _late_history(self) -> History:
        if self._late is None:
            self._late = History(self.key.late, self._options, first_id=self._next_id)
        return self._late

    def _stored(self, *, is_open: bool) -> StoredFilter:
        return StoredFilter(self._header(is_open=is_open), self._filter.to_bytes())

    def _header(self, *, is_open: bool) -> FilterHeader:
        assert self._opened_ms is not None
        return FilterHeader(
            key=self.key,
            filter_id=self._filter_id,
            generation=self._generation,
            is_open=is_open,
            kind=self._options.kind,
            shape=self._options.shape,
            count=self._filter.count,
            opened_ms=self._opened_ms,
            added_ms=self.added_ms,
            index=TimeIndex(self._index.range, self._index.singletons),
        )


def _container(
    kind: FilterKind, shape: FilterShape, body: bytes | None = None, count: int = 0
) -> BloomFilter | ExactRecords:
    return BloomFilter(shape, body, count) if kind == "bloom" else ExactRecords(shape, body or b"", count)


def _fill(filter_: BloomFilter | ExactRecords, high: Column, low: Column, subscribers: Column | None) -> None:
    if isinstance(filter_, ExactRecords) and filter_.has_subscribers:
        filter_.add_columns(high, low, subscribers)
    else:
        filter_.add_columns(high if subscribers is None else high ^ subscribers, low)


def _rows(
    chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], high: Column, low: Column, subscribers: Column | None
) -> tuple[Column, Column, Column | None]:
    return high[chosen], low[chosen], None if subscribers is None else subscribers[chosen]
