"""How fast jobs were done, and how fast the workers could have done them, in parts of a run.

Workers can do as many jobs as they have hands: those that live, times the jobs that each does at once, by the time for
a job. They cannot do more than the machine carries. That changes within seconds if others use the machine, so it is
taken from the seconds before each kill, when everything has been repaired for a while.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

__all__ = ["Pace", "Span", "pace_of", "quiet_spans"]

_QUIET_S: Final = 2.0
"""How long before a kill, and after the return of the pubend's broker, counts as undisturbed, or as disturbed."""

Span = tuple[float, float]
"""From one time to another, in seconds."""


@dataclass(slots=True, frozen=True)
class Pace:
    """What was done in a part of a run, and what could have been."""

    done: int
    seconds: float
    possible: float

    @property
    def per_s(self) -> float:
        """Jobs per second."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def share(self) -> float:
        """How much of what was possible was done."""
        return self.done / self.possible if self.possible else 0.0


def pace_of(
    done_s: Sequence[float],
    spans: Sequence[Span],
    *,
    down: Sequence[Span],
    alive: Sequence[Span],
    worker_per_s: float,
    machine_per_s: float = float("inf"),
) -> Pace:
    """The pace within spans, without the times when nothing was possible because a broker was down.

    ``done_s`` are the times at which jobs were done, in order. ``alive`` has the life of every worker.

    >>> pace_of([0.5, 1.5, 2.5], [(0, 3)], down=[(1, 2)], alive=[(0, 3), (0, 2.5)], worker_per_s=1)
    Pace(done=2, seconds=2.0, possible=3.5)
    """
    edges = sorted({edge for span in (*spans, *down, *alive) for edge in span})
    done = 0
    seconds = possible = 0.0
    for begin_s, end_s in pairwise(edges):
        if _count(down, begin_s) or not _count(spans, begin_s):
            continue
        done += bisect_left(done_s, end_s) - bisect_left(done_s, begin_s)
        seconds += end_s - begin_s
        possible += (end_s - begin_s) * min(machine_per_s, _count(alive, begin_s) * worker_per_s)
    return Pace(done, seconds, possible)


def quiet_spans(kills_s: Sequence[float], whole: Span, *, down: Sequence[Span]) -> list[Span]:
    """The seconds before each kill, without those soon after the pubend's broker was down.

    Empty if nothing was killed within the whole span: then there is nothing to compare.

    >>> quiet_spans([5, 10, 15], (1, 12), down=[(5, 7.5)])
    [(3.0, 5), (9.5, 10)]
    """
    found: list[Span] = []
    for end_s in [each for each in kills_s if whole[0] < each <= whole[1]]:
        returned_s = max((each for _, each in down if each <= end_s), default=whole[0] - _QUIET_S)
        begin_s = max(whole[0], end_s - _QUIET_S, returned_s + _QUIET_S)
        if begin_s < end_s:
            found.append((begin_s, end_s))
    return found


def _count(spans: Iterable[Span], at_s: float) -> int:
    return sum(begin_s <= at_s < end_s for begin_s, end_s in spans)
