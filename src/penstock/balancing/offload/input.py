"""Offloads to balance the input utilisation: members of the covering set only ([PADRES] section 5.1).

Again and again the one whose move brings the difference closest to zero, until nothing improves, the order flips, or
the difference is within the balance threshold. One that was chosen is not considered again.
"""

from __future__ import annotations

import numpy as np

from penstock.balancing.metrics import Metric
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Offload

__all__ = ["offload_input"]


def offload_input(work: Offload, coverage: Coverage) -> None:
    """Decide who moves."""
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
