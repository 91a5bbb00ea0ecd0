"""Figures of the wandering token for Prometheus."""

from __future__ import annotations

from random import Random

from penstock.live.token_metrics import token_metrics
from penstock.token.member import Member
from penstock.token.settings import Plan
from statuses import broker_status


def test_all_figures_of_a_member_are_shown() -> None:
    member = Member("a", Plan(op_ms=1_000, min_ms=2_000), life=1, rng=Random(1), now_ms=0)
    member.set_members(["a", "b", "c"], now_ms=0)
    member.counts["operations"] = 7
    told = broker_status({"mechanisms": {"token": member.status()}})
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
