"""The report knows every experiment, under keys of its own."""

from __future__ import annotations

from penstock.lab.frame.parameters import parameter_values
from penstock.lab.report.chapters import CHAPTERS, Entry
from penstock.pipeline.experiments.registry import EXPERIMENTS

ENTRIES = [entry for chapter in CHAPTERS for entry in chapter.entries]


def test_every_experiment_has_its_place_in_the_report() -> None:
    assert {each.name for each in EXPERIMENTS} <= {entry.name for entry in ENTRIES}


def test_no_key_is_used_twice() -> None:
    keys = [entry.key for entry in ENTRIES] + [chapter.key for chapter in CHAPTERS]
    assert len(set(keys)) == len(keys)
    assert Entry("a", settings=("profile=swift", "n=2")).key == "a-swift-2"


def test_settings_of_entries_are_parameters_of_their_experiments() -> None:
    known = {each.name: each for each in EXPERIMENTS}
    for entry in ENTRIES:
        if entry.name in known:
            parameter_values(known[entry.name].parameters, entry.settings)
