"""Offloads to balance the matching delay: subscriptions of least traffic first ([PADRES] section 5.2).

Also the way out of an overload of CPU, memory or input: then it goes on until the broker is below the lower overload
threshold.
"""

from __future__ import annotations

import numpy as np

from penstock.balancing.metrics import Metric
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Offload
from penstock.balancing.offload.prefixes import move_in_order

__all__ = ["offload_match"]


def offload_match(work: Offload, coverage: Coverage) -> None:
    """Decide who moves."""
    move_in_order(work, coverage, Metric.DELAY, np.flatnonzero(work.left > 0))
