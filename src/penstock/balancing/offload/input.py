"""Offloads to balance the input utilisation: members of the covering set first ([PADRES] section 5.1).

Again and again the one whose move brings the difference closest to zero, until nothing improves, the order flips, or
the difference is within the balance threshold. One that was chosen is not considered again.

Deviation: the paper moves nobody else. One subscription to everything is all of a covering set; at a broker that has
one, and whose partner has one, too, moving it saves no input and doubles nobody's, but drives the outputs apart. Then
input could never be balanced. But input utilisation is rate × matching delay, and the delay is for each subscription:
so those that add nothing to the partner's input follow, least traffic first.
"""

from __future__ import annotations

import numpy as np

from penstock.balancing.metrics import Metric
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Offload
from penstock.balancing.offload.prefixes import move_in_order

__all__ = ["offload_input"]


def offload_input(work: Offload, coverage: Coverage) -> None:
    """Decide who moves."""
    _move_members(work, coverage)
    if not work.is_done(Metric.INPUT):
        move_in_order(work, coverage, Metric.INPUT, np.flatnonzero((work.left > 0) & (work.added() <= 0)))


def _move_members(work: Offload, coverage: Coverage) -> None:
    chosen = np.zeros(len(work.left), np.bool_)
    while not work.is_done(Metric.INPUT):
        counts, differences = work.counts(Metric.INPUT)
        candidates = np.flatnonzero((counts > 0) & coverage.members & ~chosen)
        if not len(candidates):
            return
        place = int(candidates[np.argmin(np.abs(differences[candidates]))])
        chosen[place] = True
        work.take(place, int(counts[place]), float(differences[place]), is_covered=bool(coverage.covered[place]))
        coverage.arrive(place)
        if not work.present[place]:
            coverage.leave(place)
