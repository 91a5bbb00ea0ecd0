"""Offloads to balance the output utilisation, in two phases ([PADRES] section 5.3).

Phase I: subscriptions that the partner's covering set covers, those of most traffic first; Type I (reduces our input)
before Type II (would, if all its subscribers could move) before Type III. Phase II: the others, as in the input
algorithm; it ends where it would call for that one, unless we are output-overloaded. A move of Phase II that makes
the partner cover more of what is here leads back to Phase I.

Deviation: the paper's Phase II ends as soon as the input utilisations are balanced. Where matching takes no time they
always are, and output could never be balanced. Here the partner's may come above ours by what the guard allows
(``guard_share`` of the trigger), which starts no session: that keeps the two algorithms apart, too.
"""

from __future__ import annotations

import numpy as np

from penstock.balancing.metrics import Metric
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Offload

__all__ = ["offload_output"]


def offload_output(work: Offload, coverage: Coverage) -> None:
    """Decide who moves."""
    while _first_phase(work, coverage) and _second_phase(work, coverage):
        pass


def _first_phase(work: Offload, coverage: Coverage) -> bool:
    """Moves what the partner covers; whether there is still something to do."""
    while not work.is_done(Metric.OUTPUT):
        counts, differences = work.counts(Metric.OUTPUT)
        candidates = np.flatnonzero((counts > 0) & coverage.covered)
        if not len(candidates):
            return True
        reduces = work.reduced()[candidates] > 0
        is_whole = counts[candidates] == work.left[candidates]
        kinds = np.where(reduces, np.where(is_whole, 1, 2), 3)
        place = int(candidates[np.lexsort((-work.rates[candidates], kinds))[0]])
        _take(work, coverage, place, int(counts[place]), float(differences[place]))
    return False


def _second_phase(work: Offload, coverage: Coverage) -> bool:
    """Moves what the partner does not cover; whether it covers more of what is here by that."""
    while not work.is_done(Metric.OUTPUT):
        counts, differences = work.counts(Metric.OUTPUT)
        candidates = np.flatnonzero((counts > 0) & ~coverage.covered)
        if not len(candidates):
            return False
        place = int(candidates[np.argmin(np.abs(differences[candidates]))])
        if _take(work, coverage, place, int(counts[place]), float(differences[place])):
            return True
    return False


def _take(work: Offload, coverage: Coverage, place: int, count: int, difference: float) -> bool:
    work.take(place, count, difference, is_covered=bool(coverage.covered[place]))
    covers_more = coverage.arrive(place)
    if not work.present[place]:
        coverage.leave(place)
    return covers_more
