"""Who is overloaded, and who is out of balance with whom."""

from __future__ import annotations

import pytest

from penstock.balancing.detection import Band, Triggers, actions, balanced_with, band_of, relief_of
from penstock.balancing.metrics import Load
from penstock.balancing.pie import Pie
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State
from penstock.model.metrics import DELAY, INPUT, OUTPUT, Metric

SETTINGS = BalancingSettings()
LOCAL = Triggers.local(SETTINGS)


def peer(name: str, load: Load, state: State = State.OK) -> Pie:
    return Pie(name, "c", state, load)


def named(*peers: Pie) -> dict[str, Pie]:
    return {each.broker: each for each in peers}


@pytest.mark.parametrize(
    ("load", "band", "relief"),
    [
        (Load(input=0.90), Band.CALM, None),
        (Load(input=0.91), Band.LOADED, None),
        (Load(input=0.96), Band.OVERLOADED, DELAY),
        (Load(cpu=0.96), Band.OVERLOADED, DELAY),
        (Load(memory=0.96), Band.OVERLOADED, DELAY),
        (Load(output=0.96), Band.OVERLOADED, OUTPUT),
        (Load(output=0.93), Band.LOADED, None),
        (Load(input=1.2, output=1.2), Band.OVERLOADED, DELAY),
        (Load(delay_s=9), Band.CALM, None),
    ],
)
def test_bands_of_load(load: Load, band: Band, relief: Metric | None) -> None:
    assert band_of(load, SETTINGS) is band
    assert relief_of(load, 0.95) is relief


def test_the_largest_difference_comes_first() -> None:
    own = Load(0.5, 0.4, 0.03)
    peers = named(peer("a", Load(0.35, 0.4, 0.03)), peer("b", Load(0.5, 0.1, 0.03)), peer("c", Load(0.5, 0.4, 0.012)))
    found = [(each.partner, each.metric) for each in actions(own, peers, LOCAL, overload=0.95)]
    assert found == [("b", OUTPUT), ("c", DELAY), ("a", INPUT)]
    assert balanced_with(own, peers, LOCAL) == ()


def test_a_difference_at_the_trigger_is_none() -> None:
    peers = named(peer("a", Load(0.5, 0.25, 0.02)))
    assert actions(Load(0.5 + 0.0999, 0.25, 0.0299), peers, LOCAL, overload=0.95) == []
    assert balanced_with(Load(0.5 + 0.0999, 0.25, 0.0299), peers, LOCAL) == ("a",)
    assert [each.metric for each in actions(Load(0.61, 0.25, 0.02), peers, LOCAL, overload=0.95)] == [INPUT]


def test_only_the_busier_side_acts_and_only_with_those_that_are_ok() -> None:
    busy = [peer(state.value, Load(), state) for state in State if state is not State.OK]
    assert actions(Load(0.1), named(peer("a", Load(0.5)), *busy), LOCAL, overload=0.95) == []
    assert balanced_with(Load(0.05), named(*busy), LOCAL) == ("BUSY", "N/A", "STABILIZING")


def test_who_is_overloaded_asks_whoever_is_ok() -> None:
    found = actions(Load(0.97, 0.1, 0.01), named(peer("a", Load(0.9)), peer("b", Load(0.2))), LOCAL, overload=0.95)
    assert [(each.partner, each.metric, each.is_overload) for each in found] == [
        ("b", DELAY, True),
        ("a", DELAY, True),
    ]


def test_clusters_have_triggers_of_their_own() -> None:
    triggers = Triggers.of_clusters(SETTINGS)
    peers = named(peer("a", Load(0.3)))
    assert actions(Load(0.44), peers, triggers, overload=0.95) == []
    assert len(actions(Load(0.46), peers, triggers, overload=0.95)) == 1
