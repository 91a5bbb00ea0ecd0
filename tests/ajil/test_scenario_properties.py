"""What holds whatever the demand and the policy: the laws of the issue, over random networks."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ajil.network import Network
from penstock.ajil.amounts import Unit
from penstock.ajil.aup import Aup

NAMES = ("n1", "n2", "n3", "n4")
GROUPS = ("g", "h", "k")
MEMBERSHIP = {"n1": ("g", "h"), "n2": ("h", "k"), "n3": ("g", "k"), "n4": ("g",)}

demands = st.fixed_dictionaries(
    {name: st.fixed_dictionaries({group: st.integers(0, 500) for group in MEMBERSHIP[name]}) for name in NAMES}
)
policies = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["flat", "local", "global", "naive"]),
        "alpha": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        "beta": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        "report_fraction": st.sampled_from([0.01, 0.1, 1.0]),
        "tax_bytes_s": st.sampled_from([1.0, 50.0, 5000.0]),
        "fraction": st.sampled_from([0.01, 0.3, 1.0]),
        "smoothing": st.sampled_from([0.3, 1.0]),
    }
)


def total(demand: dict[str, dict[str, int]]) -> int:
    return sum(sum(each.values()) for each in demand.values())


@settings(max_examples=30, deadline=None)
@given(policies, st.lists(demands, min_size=1, max_size=8), st.integers(1, 3000), st.integers(0, 9))
def test_quotas_are_never_negative_and_never_above_what_was_wanted(
    policy: dict[str, Any], load: list[Any], limit: int, seed: int
) -> None:
    network = Network(Aup(limit_bytes_s=limit, **policy), MEMBERSHIP, seed=seed)
    highest: dict[tuple[str, str], float] = {}
    for demand in load:
        sent = network.epoch(demand)
        for name in NAMES:
            assert 0 <= sent[name] <= sum(demand[name].values())
            for group, size in demand[name].items():
                highest[name, group] = max(highest.get((name, group), 0), size)
        for member in network.members.values():
            for each in member.node.slowed():
                assert 0 <= each.quota_s <= highest[each.channel.sender, each.channel.group]


@settings(max_examples=15, deadline=None)
@given(policies, st.lists(demands, min_size=1, max_size=8), st.integers(0, 9))
def test_below_the_limit_nobody_is_limited(policy: dict[str, Any], load: list[Any], seed: int) -> None:
    # Stale reports may claim the highest that every group ever had.
    highest = sum(max(sum(demand[name].get(group, 0) for name in NAMES) for demand in load) for group in GROUPS)
    network = Network(Aup(limit_bytes_s=max(highest, 1), **policy), MEMBERSHIP, seed=seed)
    for demand in load:
        assert sum(network.epoch(demand).values()) == total(demand)
        assert network.slowed() == 0


@settings(max_examples=15, deadline=None)
@given(st.lists(demands, min_size=2, max_size=15), st.integers(1, 3000), st.integers(0, 9))
def test_a_hard_limit_is_never_exceeded_while_no_announcement_is_lost(load: list[Any], limit: int, seed: int) -> None:
    network = Network(Aup(limit_bytes_s=limit, mode="hard"), MEMBERSHIP, seed=seed)
    for number, demand in enumerate(load):
        assert sum(network.epoch(demand).values()) <= limit * (1 + 1e-9)
        if number == len(load) // 2:
            network.members.pop("n2")
            network.join("n5", ("g", "h"), Aup(limit_bytes_s=limit, mode="hard"))
        demand["n5"] = {"g": 400, "h": 300}


@settings(max_examples=15, deadline=None)
@given(policies, st.lists(demands, min_size=1, max_size=10), st.integers(50, 1000), st.integers(0, 9))
def test_after_the_surge_all_quotas_vanish(policy: dict[str, Any], load: list[Any], limit: int, seed: int) -> None:
    network = Network(Aup(limit_bytes_s=limit, timeout_epochs=20, **policy), MEMBERSHIP, seed=seed)
    for demand in load:
        network.epoch(demand)
    for _ in range(60):
        network.epoch({})
    assert network.slowed() == 0
    for member in network.members.values():
        assert member.node.estimates[Unit.BYTES] <= limit
