"""Faults that must not stop anybody for ever: loss, repetition, deaths, two administrators, forgeries."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ajil.network import Network
from penstock.ajil.amounts import Unit
from penstock.ajil.aup import UNLIMITED, Aup
from penstock.ajil.messages import Entry, Policy, Report

LIMIT = 6000.0
AUP = Aup(limit_bytes_s=LIMIT, alpha=1, beta=1, report_fraction=0.3, timeout_epochs=30, version=1, author="ann")
GROUPS = ("g", "h", "k")
MEMBERSHIP = {"n1": ("g", "h"), "n2": ("h", "k"), "n3": ("g", "k"), "n4": ("g", "h")}


def demand(size: float) -> dict[str, Mapping[str, float]]:
    return {name: dict.fromkeys(groups, size) for name, groups in MEMBERSHIP.items()}


def mean_of_last(network: Network, epochs: int, load: dict[str, Mapping[str, float]]) -> float:
    totals = [sum(network.epoch(load).values()) for _ in range(epochs)]
    return sum(totals[epochs // 2 :]) / (epochs - epochs // 2)


@pytest.mark.parametrize("repeat", [0.0, 0.5])
def test_lost_and_repeated_reports_leave_the_limit_in_force(repeat: float) -> None:
    network = Network(AUP, MEMBERSHIP, loss=0.3)
    network.repeat = repeat
    assert mean_of_last(network, 120, demand(1000)) <= 1.1 * LIMIT
    for _ in range(60):
        network.epoch(demand(500))
    assert network.slowed() == 0
    assert sum(network.epoch(demand(500)).values()) == 4000


def test_the_share_of_a_node_that_dies_while_slowed_down_is_taken_by_others() -> None:
    network = Network(AUP, MEMBERSHIP)
    for _ in range(20):
        network.epoch(demand(1000))
    assert network.members["n1"].node.slowed()
    network.members.pop("n1")
    totals = [sum(network.epoch(demand(1000)).values()) for _ in range(80)]
    assert totals[-1] == 6000, "the others fit, and are not slowed down any more"
    assert network.slowed() == 0


def test_nobody_waits_for_ever_for_a_group_whose_last_member_died() -> None:
    network = Network(AUP, {"n1": ("g",), "n2": ("h",), "n3": ("h",)})
    load = {"n1": {"g": 5000.0}, "n2": {"h": 2500.0}, "n3": {"h": 2500.0}}
    for _ in range(20):
        network.epoch(load)
    network.members.pop("n1")
    for _ in range(AUP.timeout_epochs + 20):
        network.epoch(load)
    assert network.slowed() == 0


def test_two_administrators_at_once_end_with_one_policy_everywhere() -> None:
    network = Network(AUP, MEMBERSHIP, loss=0.2)
    names = list(network.members)
    network.members[names[0]].node.adopt(AUP.successor("ann", limit_bytes_s=5000.0))
    network.members[names[1]].node.adopt(AUP.successor("bob", limit_bytes_s=4000.0))
    for _ in range(30):
        network.epoch(demand(100))
    assert {each.node.aup.author for each in network.members.values()} == {"bob"}
    assert {each.node.aup.limit_bytes_s for each in network.members.values()} == {4000.0}


def test_a_node_that_joins_late_learns_the_policy_within_three_epochs() -> None:
    for seed in range(6):
        network = Network(AUP, MEMBERSHIP, seed=seed)
        for _ in range(10):
            network.epoch(demand(100))
        late = network.join("late", ("g",), UNLIMITED)
        for _ in range(3):
            network.epoch(demand(100))
        assert late.node.aup == AUP


def test_a_late_joiner_that_is_loud_is_slowed_down() -> None:
    network = Network(AUP, MEMBERSHIP)
    for _ in range(10):
        network.epoch(demand(500))
    network.join("late", ("g",), UNLIMITED)
    load = {**demand(500), "late": {"g": 9000.0}}
    sent = [network.epoch(load)["late"] for _ in range(6)]
    assert sent[-1] < 9000


def test_a_false_report_slows_nobody_for_longer_than_its_timeout() -> None:
    network = Network(AUP, MEMBERSHIP)
    network.epoch(demand(500))
    for member in network.members.values():
        member.node.hear(Report("liar", 1, (Entry("nowhere", 1e9, 1e6),)))
    network.epoch(demand(500))
    assert network.slowed() > 0
    for _ in range(AUP.timeout_epochs + 30):
        network.epoch(demand(500))
    assert network.slowed() == 0


def test_an_old_policy_that_is_played_back_changes_nothing() -> None:
    network = Network(AUP, MEMBERSHIP)
    newer = AUP.successor("bob", limit_bytes_s=3000.0)
    for member in network.members.values():
        member.node.adopt(newer)
        assert not member.node.hear(Policy.of("x", AUP))
        assert member.node.aup == newer


def test_both_units_can_be_limited_at_once() -> None:
    network = Network(Aup(limit_bytes_s=1e9, limit_packets_s=40, alpha=1, beta=1, report_fraction=1.0), MEMBERSHIP)
    for _ in range(40):
        network.epoch(demand(1000))
    slowed = [each.unit for member in network.members.values() for each in member.node.slowed()]
    assert slowed
    assert set(slowed) == {Unit.PACKETS}
