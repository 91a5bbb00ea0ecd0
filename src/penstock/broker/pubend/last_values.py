"""The compacted view of one pubend: the newest message of each key among those that were trimmed from its log.

The log has everything later, so whoever takes the newest of both has the last value of each key. Every message of the
view is a named value of its own, under its tick, and is written in the commit that trims it from the log.

A message that expires may leave an older one behind that does not: that one is the last value then, as it would be if
the log still had both. So the view keeps a message unless a newer one of its key lives at least as long. With one
lifetime for all messages of a key, that is one message.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final

from penstock.broker.durable import SetValue
from penstock.model.body import MalformedBodyError, decode_attributes
from penstock.model.expiry import expires_at_ms
from penstock.model.keys import Key, key_of

__all__ = ["LastView", "stale_values"]

_PREFIX: Final = "last"
_NEVER: Final = 1 << 63
_LEFTOVERS_MAX: Final = 1_000
"""Ticks of dropped messages that the order may hold before it is made anew, unless there are as many others."""


@dataclass(slots=True, frozen=True)
class _Kept:
    """One message of the view."""

    tick: int
    body: bytes
    key: Key
    end_ms: int
    """When it expires."""


class LastView:
    """The view of one pubend, by one attribute."""

    def __init__(
        self, pubend: str, attribute: str, values: Mapping[str, bytes] | None = None, *, keys_max: int, bytes_max: int
    ) -> None:
        """Continues with the named values of a former life; those that cannot be read are dropped."""
        self.pubend, self.attribute = pubend, attribute
        self._keys_max, self._bytes_max = keys_max, bytes_max
        self._kept: dict[int, _Kept] = {}
        self._by_key: dict[Key, list[_Kept]] = {}
        """The messages of each key: the later, the sooner they expire."""
        self._order: list[int] = []
        """All ticks, ascending, among them some of messages that were dropped."""
        self._ends: list[tuple[int, int]] = []
        """When messages expire, with their ticks, as a heap; among them some that were dropped."""
        self._stored: set[int] = set()
        self._changes: dict[int, bytes | None] = {}
        self.size_bytes = 0
        self.dropped = 0
        """Messages that were dropped at a bound."""
        self.damaged = 0
        """Stored messages that could not be read."""
        places = ((_place_of(name), value) for name, value in (values or {}).items())
        found = {place[1]: value for place, value in places if place and (place[0], place[2]) == (pubend, attribute)}
        for tick in sorted(found):
            self._restore(tick, found[tick])
        self._fit()

    def _restore(self, tick: int, body: bytes) -> None:
        self._stored.add(tick)
        kept = self._taken(tick, body)
        if kept is None:
            self.damaged += 1
            self._changes[tick] = None
        else:
            self._insert(kept)

    def __len__(self) -> int:
        """Counts the keys."""
        return len(self._by_key)

    # --- changes

    def keep(self, messages: Iterable[tuple[int, bytes]], *, now_ms: int) -> None:
        """Takes messages that are trimmed from the log."""
        for tick, body in messages:
            kept = self._taken(tick, body)
            if kept is not None and kept.end_ms > now_ms:
                self._insert(kept)
        self._fit()

    def bound(self, *, keys_max: int, bytes_max: int) -> None:
        """Changes the bounds."""
        self._keys_max, self._bytes_max = keys_max, bytes_max
        self._fit()

    def expire(self, *, now_ms: int) -> None:
        """Drops messages whose time is over."""
        while self._ends and self._ends[0][0] <= now_ms:
            _, tick = heappop(self._ends)
            if tick in self._kept:
                self._drop(self._kept[tick])

    def take_changes(self) -> list[SetValue]:
        """Returns what must become durable together with the trim."""
        changes, self._changes = self._changes, {}
        for tick, body in changes.items():
            if body is None:
                self._stored.discard(tick)
            else:
                self._stored.add(tick)
        return [SetValue(self._name(tick), body) for tick, body in changes.items()]

    # --- reading

    def between(self, first: int, last: int, *, now_ms: int) -> Iterator[tuple[int, bytes]]:
        """The messages with these ticks that have not expired, in order."""
        for place in range(bisect_left(self._order, first), len(self._order)):
            tick = self._order[place]
            if tick > last:
                return
            kept = self._kept.get(tick)
            if kept is not None and kept.end_ms > now_ms:
                yield tick, kept.body

    # --- inside

    def _taken(self, tick: int, body: bytes) -> _Kept | None:
        """A message as the view keeps it; None if it has no key, or cannot be read."""
        try:
            attributes = decode_attributes(body)
        except MalformedBodyError:
            return None
        value = attributes.get(self.attribute)
        if value is None:
            return None
        end_ms = expires_at_ms(body, attributes)
        return _Kept(tick, body, key_of(value), _NEVER if end_ms is None else end_ms)

    def _insert(self, kept: _Kept) -> None:
        """Keeps a message unless a newer one makes it superfluous; drops those for which it does that.

        After a crash messages may come that were in the view before, or were replaced in it.
        """
        alike = self._by_key.get(kept.key, ())
        if any(each.tick >= kept.tick and each.end_ms >= kept.end_ms for each in alike):
            return
        for each in [each for each in alike if each.tick < kept.tick and each.end_ms <= kept.end_ms]:
            self._drop(each)
        insort(self._by_key.setdefault(kept.key, []), kept, key=lambda each: each.tick)
        self._kept[kept.tick] = kept
        self.size_bytes += len(kept.body)
        if kept.tick in self._stored:
            self._changes.pop(kept.tick, None)
        else:
            self._changes[kept.tick] = kept.body
        place = bisect_left(self._order, kept.tick)
        if self._order[place : place + 1] != [kept.tick]:
            self._order.insert(place, kept.tick)
        if kept.end_ms < _NEVER:
            heappush(self._ends, (kept.end_ms, kept.tick))

    def _drop(self, kept: _Kept) -> None:
        del self._kept[kept.tick]
        self.size_bytes -= len(kept.body)
        alike = self._by_key[kept.key]
        alike.remove(kept)
        if not alike:
            del self._by_key[kept.key]
        if kept.tick in self._stored:
            self._changes[kept.tick] = None
        else:
            del self._changes[kept.tick]
        if len(self._order) > 2 * len(self._kept) + _LEFTOVERS_MAX:
            self._order = sorted(self._kept)
        if len(self._ends) > 2 * len(self._kept) + _LEFTOVERS_MAX:
            self._ends = [(each.end_ms, tick) for tick, each in self._kept.items() if each.end_ms < _NEVER]
            heapify(self._ends)

    def _fit(self) -> None:
        """Drops the oldest messages until the rest is within the bounds."""
        order, place = self._order, 0
        while len(self._kept) > self._keys_max or self.size_bytes > self._bytes_max:
            kept = self._kept.get(order[place])
            place += 1
            if kept is not None:
                self.dropped += 1
                self._drop(kept)
        if self._order is order:
            del order[:place]

    def _name(self, tick: int) -> str:
        return f"{_PREFIX}/{self.pubend}/{tick}/{self.attribute}"

    def check_invariants(self) -> None:
        """Fails if the parts contradict each other."""
        assert sorted(self._kept) == [tick for tick in self._order if tick in self._kept]
        assert sum(map(len, self._by_key.values())) == len(self._kept)
        assert self.size_bytes == sum(len(each.body) for each in self._kept.values())
        for alike in self._by_key.values():
            for older, newer in pairwise(alike):
                assert older.tick < newer.tick
                assert older.end_ms > newer.end_ms


def stale_values(names: Iterable[str], pubends: Iterable[str], attributes: Mapping[str, str]) -> list[str]:
    """The names of stored values of views that these pubends do not have any more.

    A view that is not kept up to date would give old values if it came back.
    """
    ours = set(pubends)
    places = ((name, _place_of(name)) for name in names)
    return [name for name, place in places if place and place[0] in ours and attributes.get(place[0]) != place[2]]


def _place_of(name: str) -> tuple[str, int, str] | None:
    """Pubend, tick and attribute of the message with this name; None for values of others."""
    parts = name.split("/", 3)
    if len(parts) != 4 or parts[0] != _PREFIX or not parts[2].isdigit():
        return None
    return parts[1], int(parts[2]), parts[3]
