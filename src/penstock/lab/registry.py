"""The list of all experiments, in the order in which a reader should meet them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from penstock.lab.archive_kill9 import ARCHIVE_KILL9
from penstock.lab.delivery_chaos import DELIVERY_CHAOS
from penstock.lab.delivery_kill9 import DELIVERY_KILL9
from penstock.lab.errors import UnknownExperimentError
from penstock.lab.experiment import Experiment
from penstock.lab.matching_scale import MATCHING_SCALE

__all__ = ["EXPERIMENTS", "find_experiment"]

EXPERIMENTS: Final = (MATCHING_SCALE, DELIVERY_CHAOS, DELIVERY_KILL9, ARCHIVE_KILL9)


def find_experiment(name: str, among: Sequence[Experiment] = EXPERIMENTS) -> Experiment:
    """The experiment of that name, or an error that says which names are near."""
    for experiment in among:
        if experiment.name == name:
            return experiment
    names = [experiment.name for experiment in among]
    near = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names)}"
    raise UnknownExperimentError(f"no experiment {name!r}; {hint}")
