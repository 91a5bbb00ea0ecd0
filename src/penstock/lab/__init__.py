"""The papers' experiments, one folder per paper: published figures next to our measurements.

Experiments are imported on demand, because the small processes that the lab starts need none.
"""

from __future__ import annotations

from penstock.lab.frame.experiment import Context, Experiment, Parameter, Result, run_experiment

__all__ = ["Context", "Experiment", "Parameter", "Result", "run_experiment"]
