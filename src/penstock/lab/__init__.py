"""The papers' experiments, one file each: what was published beside what we measure."""

from __future__ import annotations

from penstock.lab.experiment import Context, Experiment, Parameter, Reporter, Result, run_experiment
from penstock.lab.registry import EXPERIMENTS, find_experiment

__all__ = [
    "EXPERIMENTS",
    "Context",
    "Experiment",
    "Parameter",
    "Reporter",
    "Result",
    "find_experiment",
    "run_experiment",
]
