"""The three offload algorithms: choose who moves to balance input, matching delay or output ([PADRES] section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.balancing.offload.algorithms import offload_input, offload_match, offload_output, offload_publishers
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Interest, Offload, Profile, Publishing
from penstock.model.metrics import DELAY, INPUT, OUTPUT, Metric

__all__ = ["ALGORITHMS", "Coverage", "Interest", "Offload", "Profile", "Publishing", "offload_publishers"]

ALGORITHMS: Final[dict[Metric, Callable[[Offload, Coverage], None]]] = {
    INPUT: offload_input,
    DELAY: offload_match,
    OUTPUT: offload_output,
}
"""The algorithm for each metric to balance."""
