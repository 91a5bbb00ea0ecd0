"""Registry of all experiments, of the lab and on Spark, in the order in which a reader should meet them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from penstock.lab import Experiment
from penstock.lab.frame.errors import UnknownExperimentError
from penstock.lab.registry import AJIL, BALANCING, CONGESTION, DELIVERY, GRYPHON, MATCHING, TOKEN, TRACKING
from penstock.pipeline.experiments.archive_kill9.experiment import ARCHIVE_KILL9
from penstock.pipeline.experiments.sink_kill9.experiment import SINK_KILL9
from penstock.pipeline.experiments.trace_bulk.experiment import TRACE_BULK

__all__ = ["EXPERIMENTS", "find_experiment"]

EXPERIMENTS: Final = (
    *MATCHING,
    *DELIVERY,
    ARCHIVE_KILL9,
    SINK_KILL9,
    *GRYPHON,
    *CONGESTION,
    *BALANCING,
    *TRACKING,
    TRACE_BULK,
    *TOKEN,
    *AJIL,
)


def find_experiment(name: str) -> Experiment:
    """Find the experiment with this name, or raise an error that suggests similar names."""
    for experiment in EXPERIMENTS:
        if experiment.name == name:
            return experiment
    names = [experiment.name for experiment in EXPERIMENTS]
    near = get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names)}"
    raise UnknownExperimentError(f"no experiment {name!r}; {hint}")
