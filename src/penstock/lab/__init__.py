"""The papers' experiments, a folder for each paper: what was published beside what we measure.

Experiments are imported when somebody asks for them: the small processes that the lab starts need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.lab.frame.experiment import Context, Experiment, Parameter, Result, run_experiment

if TYPE_CHECKING:
    from penstock.lab.registry import EXPERIMENTS, find_experiment

__all__ = [
    "EXPERIMENTS",
    "Context",
    "Experiment",
    "Parameter",
    "Result",
    "find_experiment",
    "run_experiment",
]


def __getattr__(name: str) -> Any:
    if name in ("EXPERIMENTS", "find_experiment"):
        from penstock.lab import registry

        return getattr(registry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
