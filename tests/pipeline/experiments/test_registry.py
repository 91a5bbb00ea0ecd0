"""Experiments are found by name, and a wrong name is answered with near ones."""

from __future__ import annotations

import pytest

from penstock.lab.frame.errors import UnknownExperimentError
from penstock.pipeline.experiments.registry import EXPERIMENTS, find_experiment


def test_every_experiment_is_found_by_its_own_name_and_no_name_is_used_twice() -> None:
    names = [experiment.name for experiment in EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert [find_experiment(name).name for name in names] == names


def test_a_misspelt_name_is_answered_with_close_ones() -> None:
    with pytest.raises(UnknownExperimentError, match=r"no experiment 'Matching-scal'; did you mean matching-scale"):
        find_experiment("Matching-scal")


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(UnknownExperimentError, match="known are matching-scale"):
        find_experiment("xyzzy")
