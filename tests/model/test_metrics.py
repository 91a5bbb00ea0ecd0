"""The table of metrics; ``balancing/test_scenario_metrics.py`` checks who uses it."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace

import pytest

from penstock.model.metrics import BALANCED, DELAY, INPUT, METRICS, OUTPUT, UTILISATIONS, Metric


def test_names_keys_and_series_are_distinct() -> None:
    for names in ([each.name for each in METRICS], [each.key for each in METRICS], [each.series for each in METRICS]):
        assert len(set(names)) == len(METRICS)


def test_input_output_and_delay_are_balanced() -> None:
    assert BALANCED == (INPUT, OUTPUT, DELAY)


def test_everything_but_the_delay_can_be_overloaded() -> None:
    assert [each for each in METRICS if each not in UTILISATIONS] == [DELAY]


@pytest.mark.parametrize("metric", METRICS, ids=lambda each: each.name)
def test_the_relief_of_a_metric_is_balanced(metric: Metric) -> None:
    assert metric.relief in {each.name for each in BALANCED}


def test_a_metric_is_read_from_whatever_has_it() -> None:
    assert DELAY.of(SimpleNamespace(delay_s=0.5)) == 0.5


def test_a_metric_from_another_process_finds_what_is_kept_by_metric() -> None:
    assert {INPUT: 1}[deepcopy(INPUT)] == 1
