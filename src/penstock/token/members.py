"""Chooses whom to pass a token to: any known member, or one of a random few ([Token] sections 1 and 4.1).

The walk needs no more than O(log N) of the others, chosen at random. Whenever members come or go, a new sample is
drawn, so that newcomers are as likely to be in it as everybody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, log2
from typing import Final

from penstock.model.ports import Rng

__all__ = ["MEMBERS_MAX", "View", "sample_size"]

MEMBERS_MAX: Final = 1_000_000
"""Most members that a view remembers; further ones are never chosen."""


def sample_size(size: int, factor: float = 2.0) -> int:
    """How many of a group's members a partial view has: factor · log2 N, at least one, at most all others."""
    if size <= 2:
        return max(size - 1, 0)
    return min(max(ceil(factor * log2(size)), 1), size - 1)


class View:
    """The members that one component knows, without itself."""

    def __init__(self, own: str, rng: Rng, *, factor: float | None = None) -> None:
        self._own, self._rng, self._factor = own, rng, factor
        """With a factor, the view is a sample of factor · log2 N members; without one, it is everybody."""
        self._members: dict[str, None] = {}
        self._chosen: list[str] = []

    @property
    def size(self) -> int:
        """How many members the group has, including this one (N)."""
        return len(self._members) + 1

    @property
    def members(self) -> tuple[str, ...]:
        """All other members, sorted."""
        return tuple(sorted(self._members))

    @property
    def chosen(self) -> Sequence[str]:
        """Members that a token may be passed to."""
        return self._chosen

    def set(self, members: Iterable[str]) -> bool:
        """Sets the members; returns whether that is a change."""
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
        """Adds a member; returns whether it is new."""
        return self.set([*self._members, member])

    def leave(self, member: str) -> bool:
        """Removes a member; returns whether it was one."""
        return member in self._members and self.set([each for each in self._members if each != member])

    def next_hop(self, *, without: Iterable[str] = ()) -> str | None:
        """A random member to pass a token to, or None without any; avoids those in ``without`` if there are others."""
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
