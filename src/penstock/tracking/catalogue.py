"""Indexes the headers of stored filters by history, to find matching sets ([Tracking] 3.1).

It is bounded: beyond the limit the oldest filters are given up, and the broker no longer knows about their time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.tracking.keys import HistoryKey
from penstock.tracking.spans import Span
from penstock.tracking.stored import FilterHeader

__all__ = ["Catalogue"]


class Catalogue:
    """Finds the stored filters that may have seen a timestamp."""

    def __init__(self, filters_max: int) -> None:
        assert filters_max > 0
        self._filters_max = filters_max
        self._by_key: dict[HistoryKey, dict[int, tuple[Span, FilterHeader]]] = {}
        self._order: deque[tuple[HistoryKey, int]] = deque()
        self.known_since_ms = 0
        """Timestamps below this are no longer known."""

    def __len__(self) -> int:
        return len(self._order)

    def add(self, header: FilterHeader) -> list[FilterHeader]:
        """Add a stored filter, or a newer generation of it; returns the filters given up for it."""
        hull = header.index.hull()
        assert hull is not None, f"filter {header.name} is empty"
        filters = self._by_key.setdefault(header.key, {})
        before = filters.get(header.filter_id)
        if before is not None:
            if before[1].generation < header.generation:
                filters[header.filter_id] = hull, header
            return []
        filters[header.filter_id] = hull, header
        self._order.append((header.key, header.filter_id))
        return [self._give_up() for _ in range(len(self._order) - self._filters_max)]

    def remove(self, header: FilterHeader) -> None:
        """Remove a filter that turned out to be damaged, or was dropped."""
        filters = self._by_key.get(header.key, {})
        if filters.pop(header.filter_id, None) is not None:
            self._order.remove((header.key, header.filter_id))

    def matching(self, key: HistoryKey, timestamp_ms: int) -> list[FilterHeader]:
        """M(H, t): the filters of the history that may have seen the timestamp, oldest first."""
        filters = self._by_key.get(key)
        if filters is None:
            return []
        return [
            header
            for (first, last), header in filters.values()
            if first <= timestamp_ms <= last and timestamp_ms in header.index
        ]

    def last_id(self, key: HistoryKey) -> int:
        """The highest filter id of a history, or -1."""
        return max(self._by_key.get(key, ()), default=-1)

    def headers(self) -> list[FilterHeader]:
        """All headers, in the order they were added."""
        return [self._by_key[key][filter_id][1] for key, filter_id in self._order]

    def retire(self, may_go: Callable[[FilterHeader], bool]) -> list[FilterHeader]:
        """Give up the oldest filters, up to the first that may not go; returns them."""
        retired: list[FilterHeader] = []
        while self._order:
            key, filter_id = self._order[0]
            if not may_go(self._by_key[key][filter_id][1]):
                break
            retired.append(self._give_up())
        return retired

    def _give_up(self) -> FilterHeader:
        key, filter_id = self._order.popleft()
        filters = self._by_key[key]
        (_, last_ms), header = filters.pop(filter_id)
        # A future timestamp must not make the whole present unknown.
        last_ms = min(last_ms, header.added_ms)
        if not filters:
            del self._by_key[key]
        self.known_since_ms = max(self.known_since_ms, last_ms + 1)
        return header
