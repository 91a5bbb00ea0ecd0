"""Everything that shows, sends or balances metrics covers every row of the table of metrics."""

from __future__ import annotations

from dataclasses import fields

import pytest

from balancing.model import Model
from penstock.balancing.detection import Triggers, actions, balanced_with, relief_of
from penstock.balancing.estimators import Figures
from penstock.balancing.metrics import Load
from penstock.balancing.offload import ALGORITHMS
from penstock.balancing.offload.instance import _EFFECTS
from penstock.balancing.pie import Pie, average
from penstock.balancing.reporting import with_load
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State
from penstock.cli.status_rows import BALANCING, balancing_rows
from penstock.live.mechanism_metrics import balancing_metrics
from penstock.model.metrics import BALANCED, METRICS, UTILISATIONS, Metric
from penstock.protocol.status import BalancingStatus
from statuses import broker_status

VALUES = {each.key: (place + 1) / 16 for place, each in enumerate(METRICS)}
"""A different value for each metric."""
LOAD = Load(**VALUES)
TOLD: dict[str, object] = {
    **VALUES,
    "role": "edge",
    "cluster": "c",
    "state": "OK",
    "session": None,
    "last": {},
    "counts": {},
}
TRIGGERS = Triggers.local(BalancingSettings())


def test_a_load_has_every_metric_in_the_order_of_the_table() -> None:
    assert [each.name for each in fields(Load)] == [each.key for each in METRICS]


def test_a_load_is_estimated_in_every_metric() -> None:
    figures = Figures(10.0, 5, 100.0, 1_000.0, 0.01, 0.002, cpu=0.3, memory=0.2)
    assert all(each.of(figures.load()) == each.of(figures) > 0 for each in METRICS)


def test_every_metric_to_balance_has_an_offload_algorithm() -> None:
    assert set(ALGORITHMS) == set(BALANCED)
    assert set(_EFFECTS) == set(BALANCED)


@pytest.mark.parametrize("metric", UTILISATIONS, ids=lambda each: each.name)
def test_every_overload_has_a_relief_that_can_be_balanced(metric: Metric) -> None:
    found = relief_of(Load(**{metric.key: 2.0}), 0.95)
    assert found in BALANCED
    assert found.name == metric.relief


@pytest.mark.parametrize("metric", BALANCED, ids=lambda each: each.name)
def test_every_difference_is_detected(metric: Metric) -> None:
    peers = {"b": Pie("b", "c", State.OK, Load())}
    busier = Load(**{metric.key: 0.5})
    assert [each.metric for each in actions(busier, peers, TRIGGERS, overload=0.95)] == [metric]
    assert balanced_with(busier, peers, TRIGGERS) == ()


def test_a_pie_message_and_the_load_of_a_cluster_have_every_metric_to_balance() -> None:
    expected = Load(**{each.key: each.of(LOAD) for each in BALANCED})
    assert Pie.from_attributes(Pie("b", "c", State.OK, LOAD).attributes()).load == expected
    assert average([LOAD, LOAD]) == expected


def test_a_status_has_every_metric() -> None:
    status = with_load(BalancingStatus(), LOAD)
    assert {each.key: each.of(status) for each in METRICS} == VALUES
    model = Model({"h": {"a": 1.0}})
    assert all(isinstance(each.of(model.edges["a"].status()), float) for each in METRICS)
    assert all(isinstance(each.of(model.heads["h"].status()), float) for each in BALANCED)


def test_prometheus_has_one_series_for_every_metric() -> None:
    found = balancing_metrics(broker_status({"mechanisms": {"balancing": TOLD}}))
    values = {each.name: each.samples[0].value for each in found if each.name != "penstock_balancing_state"}
    assert values == {each.series: each.of(LOAD) for each in METRICS}


def test_the_table_of_the_command_line_has_a_column_for_every_metric_to_balance() -> None:
    (row,) = balancing_rows({"a": broker_status({"mechanisms": {"balancing": TOLD}})})
    shown = dict(zip(BALANCING, row, strict=True))
    assert len({shown[each.name] for each in BALANCED}) == len(BALANCED)
    assert all(shown[each.name] for each in BALANCED)
