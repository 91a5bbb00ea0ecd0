"""A cache that is bounded by the weight of what it remembers, for entries of very different sizes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class BoundedCache(Generic[_Key, _Value]):
    """The entries used last, up to a total weight; what is heavier than a sixteenth of that is not remembered."""

    def __init__(self, weight_max: int) -> None:
        assert weight_max > 0
        self._weight_max = weight_max
        self._entries: dict[_Key, tuple[_Value, int]] = {}
        self.weight = 0
        """Of all that is remembered."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: _Key) -> _Value | None:
        """What is remembered for a key; None for nothing."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        # Behind all others: the first is the one that was not used for longest.
        self._entries[key] = entry
        return entry[0]

    def put(self, key: _Key, value: _Value, weight: int) -> None:
        """Remembers a value, and forgets others as far as it needs their room."""
        # Else a few heavy ones would push out all others.
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
