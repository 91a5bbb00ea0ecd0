"""A cache bounded by the total weight of its entries, for entries of very different sizes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class BoundedCache(Generic[_Key, _Value]):
    """Keeps the most recently used entries up to a total weight; refuses any heavier than a sixteenth of that."""

    def __init__(self, weight_max: int) -> None:
        assert weight_max > 0
        self._weight_max = weight_max
        self._entries: dict[_Key, tuple[_Value, int]] = {}
        self.weight = 0
        """Total weight of all entries."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: _Key) -> _Value | None:
        """The value cached for a key, or None."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        # Move it to the end: the first entry is the least recently used.
        self._entries[key] = entry
        return entry[0]

    def put(self, key: _Key, value: _Value, weight: int) -> None:
        """Caches a value, and evicts others as far as it needs their room."""
        # Otherwise a few heavy entries would evict all others.
        if weight > self._weight_max // 16:
            return
        former = self._entries.pop(key, None)
        if former is not None:
            self.weight -= former[1]
        self._entries[key] = value, weight
        self.weight += weight
        while self.weight > self._weight_max:
            _, dropped = self._entries.pop(next(iter(self._entries)))
            self.weight -= dropped
