"""The papers' experiments, a folder for each paper: what was published beside what we measure.

Experiments are imported when somebody asks for them: the small processes that the lab starts need none.
"""

from __future__ import annotations

from penstock.lab.frame.experiment import Context, Experiment, Parameter, Result, run_experiment

__all__ = ["Context", "Experiment", "Parameter", "Result", "run_experiment"]
