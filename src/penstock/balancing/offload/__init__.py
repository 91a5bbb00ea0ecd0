"""The three offload algorithms: who moves, to balance input, matching delay or output ([PADRES] section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.balancing.metrics import Metric
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.input import offload_input
from penstock.balancing.offload.instance import Interest, Offload, Profile
from penstock.balancing.offload.match import offload_match
from penstock.balancing.offload.output import offload_output

__all__ = ["ALGORITHMS", "Coverage", "Interest", "Offload", "Profile"]

ALGORITHMS: Final[dict[Metric, Callable[[Offload, Coverage], None]]] = {
    Metric.INPUT: offload_input,
    Metric.DELAY: offload_match,
    Metric.OUTPUT: offload_output,
}
"""By the metric that is to be balanced."""
