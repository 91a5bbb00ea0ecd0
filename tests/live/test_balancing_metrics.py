"""Figures of balancing for Prometheus."""

from __future__ import annotations

from typing import Any

from penstock.live.balancing_metrics import balancing_metrics
from statuses import broker_status

STATUS: dict[str, Any] = {
    "state": "BUSY",
    "input": 0.5,
    "output": 0.25,
    "delay_s": 0.02,
    "cpu": 0.4,
    "memory": 0.1,
    "counts": {"sessions": 3, "migrations": 40, "malformed": 1},
}


def test_loads_state_and_counts() -> None:
    found = {each.name: each for each in balancing_metrics(broker_status({"mechanisms": {"balancing": STATUS}}))}
    assert found["penstock_balancing_input_ratio"].samples[0].value == 0.5
    assert found["penstock_balancing_matching_delay_seconds"].samples[0].value == 0.02
    assert found["penstock_balancing_migrations"].samples[0].value == 40
    states = {sample.labels["state"]: sample.value for sample in found["penstock_balancing_state"].samples}
    assert states == {"OK": 0, "BUSY": 1, "N/A": 0, "STABILIZING": 0}
    assert "penstock_balancing_timeouts" not in found


def test_a_broker_that_does_not_balance_itself_shows_nothing() -> None:
    assert list(balancing_metrics(broker_status())) == []
