"""Figures of balancing, the wandering token and congestion control for Prometheus."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec import to_builtins
from prometheus_client.core import Metric

from penstock.live.mechanism_metrics import balancing_metrics, congestion_metrics, token_metrics
from penstock.token.member import Member
from penstock.token.settings import Plan
from statuses import broker_status

BALANCING: dict[str, Any] = {
    "state": "BUSY",
    "input": 0.5,
    "output": 0.25,
    "delay_s": 0.02,
    "cpu": 0.4,
    "memory": 0.1,
    "counts": {"sessions": 3, "migrations": 40, "malformed": 1},
}


def test_loads_state_and_counts() -> None:
    found = {each.name: each for each in balancing_metrics(broker_status({"mechanisms": {"balancing": BALANCING}}))}
    assert found["penstock_balancing_input_ratio"].samples[0].value == 0.5
    assert found["penstock_balancing_matching_delay_seconds"].samples[0].value == 0.02
    assert found["penstock_balancing_migrations"].samples[0].value == 40
    states = {sample.labels["state"]: sample.value for sample in found["penstock_balancing_state"].samples}
    assert states == {"OK": 0, "BUSY": 1, "N/A": 0, "STABILIZING": 0}
    assert "penstock_balancing_timeouts" not in found


def test_what_a_head_does_with_its_own_clients_has_names_of_its_own() -> None:
    head = {"role": "head", "state": "OK", "input": 0.1, "counts": {"sessions": 2}, "own": BALANCING}
    found = {each.name: each for each in balancing_metrics(broker_status({"mechanisms": {"balancing": head}}))}
    assert found["penstock_balancing_input_ratio"].samples[0].value == 0.1
    assert found["penstock_balancing_own_input_ratio"].samples[0].value == 0.5
    assert found["penstock_balancing_sessions"].samples[0].value == 2
    assert found["penstock_balancing_own_sessions"].samples[0].value == 3
    states = {sample.labels["state"]: sample.value for sample in found["penstock_balancing_own_state"].samples}
    assert states["BUSY"] == 1


def test_a_broker_that_does_not_balance_itself_shows_nothing() -> None:
    assert list(balancing_metrics(broker_status())) == []


def test_all_figures_of_a_member_are_shown() -> None:
    member = Member("a", Plan(op_ms=1_000, min_ms=2_000), life=1, rng=Random(1), now_ms=0)
    member.set_members(["a", "b", "c"], now_ms=0)
    member.counts["operations"] = 7
    told = broker_status({"mechanisms": {"token": to_builtins(member.status())}})
    found = {each.name: each.samples[0].value for each in token_metrics(told)}
    assert found["penstock_token_members"] == 3
    assert found["penstock_token_load"] == 1.5
    assert found["penstock_token_overloaded"] == 1
    assert found["penstock_token_operation_seconds"] == 1.0
    assert found["penstock_token_interval_min_seconds"] == 2.0
    assert found["penstock_token_operations"] == 7
    assert found["penstock_token_clock_faults"] == 0
    assert {f"penstock_token_{name}" for name in member.counts} <= set(found)


def test_without_a_token_there_are_no_figures() -> None:
    assert list(token_metrics(broker_status())) == []


def pubend(**changes: Any) -> dict[str, Any]:
    usual = {"rate_msg_s": 50.0, "allowed_msg_s": None, "decreases": 1, "increases": 2, "uca_rate": None}
    return {**usual, "uca_seq": 0, "uca_host": "", **changes}


def stream(lag_ms: int, **changes: Any) -> dict[str, Any]:
    return {"horizon_rate": 0.9, "lag_ms": lag_ms, "recovering": False, "nack_window_ms": 400, **changes}


def values(metrics: list[Metric]) -> dict[str, dict[str, float]]:
    """By name of the metric: the values by label."""
    return {
        metric.name: {next(iter(sample.labels.values())): sample.value for sample in metric.samples}
        for metric in metrics
    }


def test_rates_of_pubends_and_what_limits_them() -> None:
    limited = pubend(allowed_msg_s=20.5, uca_rate=0.4, decreases=7)
    found = values(
        list(
            congestion_metrics(broker_status({"congestion": {"pubends": {"a": pubend(), "b": limited}}}), series_max=9)
        )
    )
    assert found["penstock_pubend_rate"] == {"a": 50.0, "b": 50.0}
    assert found["penstock_pubend_allowed_rate"] == {"b": 20.5}
    assert found["penstock_pubend_limited"] == {"a": 0, "b": 1}
    assert found["penstock_pubend_uca_horizon_rate"] == {"b": 0.4}
    assert found["penstock_pubend_rate_decreases"] == {"a": 1, "b": 7}
    assert found["penstock_pubend_rate_increases"] == {"a": 2, "b": 2}


def test_streams_of_hosts_in_seconds() -> None:
    streams = {"a": stream(1_500, recovering=True)}
    found = values(list(congestion_metrics(broker_status({"congestion": {"streams": streams}}), series_max=9)))
    assert found["penstock_stream_horizon_rate"] == {"a": 0.9}
    assert found["penstock_stream_query_lag_seconds"] == {"a": 1.5}
    assert found["penstock_stream_nack_window_seconds"] == {"a": 0.4}
    assert found["penstock_stream_recovering"] == {"a": 1}


def test_of_many_those_furthest_behind_are_shown() -> None:
    streams = {f"p{number}": stream(number) for number in range(5)}
    pubends = {f"p{number}": pubend() for number in range(5)}
    outboxes = {f"n{each}": each for each in range(3)}
    status = broker_status({"congestion": {"streams": streams, "pubends": pubends}, "outboxes": outboxes})
    found = values(list(congestion_metrics(status, series_max=2)))
    assert list(found["penstock_stream_horizon_rate"]) == ["p4", "p3"]
    assert list(found["penstock_pubend_rate"]) == ["p0", "p1"]
    assert len(found["penstock_link_outbox_bytes"]) == 2


def test_what_waits_for_each_link_is_told_and_a_broker_without_all_that_is_no_problem() -> None:
    found = values(list(congestion_metrics(broker_status({"outboxes": {"ib": 12, "sb": 0}}), series_max=9)))
    assert found["penstock_link_outbox_bytes"] == {"ib": 12, "sb": 0}
    assert not any(values(list(congestion_metrics(broker_status({}), series_max=9))).values())
