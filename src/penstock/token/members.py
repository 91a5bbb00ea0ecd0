"""Whom a component may pass a token to: all members it knows, or a random few ([Token] sections 1 and 4.1; rule 6).

The walk needs no more than O(log N) of the others, chosen by chance. Members come and go; a sample is drawn anew
whenever they do, so that newcomers are in it as likely as everybody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, log2
from typing import Final

from penstock.model.ports import Rng

__all__ = ["MEMBERS_MAX", "View", "sample_size"]

MEMBERS_MAX: Final = 1_000_000
"""Members that a view remembers; who comes later is not chosen, but counts if the size is told."""


def sample_size(size: int, factor: float = 2.0) -> int:
    """How many of so many members a partial view has: factor · log2 N, at least one, at most all others."""
    if size <= 2:
        return max(size - 1, 0)
    return min(max(ceil(factor * log2(size)), 1), size - 1)


class View:
    """The members that one component knows, without itself."""

    def __init__(self, own: str, rng: Rng, *, factor: float | None = None) -> None:
        self._own, self._rng, self._factor = own, rng, factor
        """With a factor the view is a sample of factor · log2 N; without, it is everybody."""
        self._members: dict[str, None] = {}
        self._chosen: list[str] = []

    @property
    def size(self) -> int:
        """How many members the group has, with this one (N)."""
        return len(self._members) + 1

    @property
    def members(self) -> tuple[str, ...]:
        """All others, in order."""
        return tuple(sorted(self._members))

    @property
    def chosen(self) -> Sequence[str]:
        """Those that a token may go to."""
        return self._chosen

    def set(self, members: Iterable[str]) -> bool:
        """These are the members now; whether that is a change."""
        wanted = dict.fromkeys(sorted(set(members) - {self._own})[:MEMBERS_MAX])
        if wanted == self._members:
            return False
        self._members = wanted
        if self._factor is None:
            self._chosen = list(wanted)
        else:
            self._choose(sample_size(self.size, self._factor))
        return True

    def join(self, member: str) -> bool:
        """A member has come; whether it is new."""
        return self.set([*self._members, member])

    def leave(self, member: str) -> bool:
        """A member has gone; whether it was one."""
        return member in self._members and self.set([each for each in self._members if each != member])

    def next_hop(self, *, without: Iterable[str] = ()) -> str | None:
        """One of those known, all equally likely; None if there is nobody. Some may be left out if there are others."""
        avoided = set(without)
        hops = [each for each in self._chosen if each not in avoided] if avoided else self._chosen
        hops = hops or self._chosen
        return hops[int(self._rng.random() * len(hops))] if hops else None

    def _choose(self, wanted: int) -> None:
        pool = list(self._members)
        for place in range(wanted):
            other = place + self._rng.randrange(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        self._chosen = pool[:wanted]
