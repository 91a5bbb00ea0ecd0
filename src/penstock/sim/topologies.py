"""Shapes of overlays, as lists of links between named brokers, for tests, benchmarks and experiments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from penstock.model.errors import MisuseError

__all__ = ["broker_names", "chain", "ring", "tree"]

_Links = list[tuple[str, str]]


def broker_names(count: int, prefix: str = "b") -> list[str]:
    """Names for this many brokers: ``b1``, ``b2`` and so on."""
    return [f"{prefix}{number}" for number in range(1, count + 1)]


def chain(names: Sequence[str]) -> _Links:
    """Each broker linked with the next."""
    _check(names, 2)
    return list(pairwise(names))


def ring(names: Sequence[str]) -> _Links:
    """A chain whose last broker is linked with the first."""
    _check(names, 3)
    return [*chain(names), (names[-1], names[0])]


def tree(names: Sequence[str], *, children: int = 2) -> _Links:
    """The first broker at the root, and this many children below each."""
    _check(names, 2)
    if children < 1:
        raise MisuseError(f"{children} children make no tree")
    return [(names[(place - 1) // children], names[place]) for place in range(1, len(names))]


def _check(names: Sequence[str], least: int) -> None:
    distinct = len(dict.fromkeys(names))
    if distinct != len(names) or len(names) < least:
        raise MisuseError(
            f"need {least} or more broker names, all distinct; got {len(names)}, {distinct} of them distinct"
        )
