from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.ajil.amounts import Unit
from penstock.ajil.aup import Aup
from penstock.ajil.messages import Demand, Entry, Policy, Report
from penstock.ajil.node import AjilNode, Channel, EpochEnd, drawn
from penstock.ajil.tally import Tally

AUP = Aup(limit_bytes_s=1000, alpha=1, beta=1, version=3, author="ann")


class Lone:
    """A node with one channel in each of some groups, driven by hand."""

    def __init__(self, aup: Aup = AUP, groups: tuple[str, ...] = ("g",), seed: int = 1) -> None:
        self.node = AjilNode("n1", aup, rng=Random(seed))
        self.tally = Tally(self.node)
        self.places = {group: self.node.open_channel(Channel("n1", group)) for group in groups}
        for group in groups:
            self.tally.join(group)

    def epoch(self, **sent: float) -> EpochEnd:
        for group, size in sent.items():
            self.tally.sent(group, "n1", int(size))
            self.tally.wanted(self.places[group], int(size))
        seen = self.tally.observation()
        end = self.node.end_epoch(seen)
        self.node.react(seen)
        self.node.check_invariants()
        self.tally.clear()
        return end

    def quota(self, group: str = "g", unit: Unit = Unit.BYTES) -> float:
        return self.node.quota(self.places[group], unit)


def heard(node: AjilNode, group: str, size: float, packets: float = 1.0) -> None:
    node.hear(Report("n2", node.aup.version, (Entry(group, size, packets),)))


def test_below_the_limit_nobody_is_slowed_down() -> None:
    lone = Lone()
    lone.epoch(g=1000)
    assert lone.quota() == np.inf
    assert lone.node.slowed() == []


def test_above_the_limit_the_domain_is_cut_by_the_excess() -> None:
    lone = Lone()
    heard(lone.node, "other", 250)
    lone.epoch(g=1000)
    assert lone.quota() == pytest.approx(800)
    (slowed,) = lone.node.slowed()
    assert (slowed.channel, slowed.unit, slowed.multiplier) == (Channel("n1", "g"), Unit.BYTES, 1)


def test_a_group_outside_the_top_groups_is_left_alone() -> None:
    lone = Lone(Aup(limit_bytes_s=1000, alpha=0.5, beta=1))
    heard(lone.node, "other", 2000)
    lone.epoch(g=500)
    assert lone.quota() == np.inf


def test_a_channel_outside_the_top_channels_of_its_group_is_left_alone() -> None:
    lone = Lone(Aup(limit_bytes_s=1000, alpha=1, beta=0.5))
    lone.tally.sent("g", "n2", 900)
    lone.epoch(g=500)
    assert lone.quota() == np.inf


def test_packets_are_limited_like_bytes_each_for_itself() -> None:
    lone = Lone(Aup(limit_packets_s=10, alpha=1, beta=1))
    for _ in range(20):
        lone.tally.sent("g", "n1", 5)
    lone.epoch()
    assert lone.quota(unit=Unit.PACKETS) == 10
    assert lone.quota(unit=Unit.BYTES) == np.inf


def test_exempt_groups_are_not_cut_and_take_nobodys_place() -> None:
    lone = Lone(Aup(limit_bytes_s=1000, alpha=0, beta=1, priorities={"cards": 0.0}), ("cards", "g"))
    lone.epoch(cards=399, g=380)
    heard(lone.node, "other", 300)
    lone.epoch(cards=399, g=380)
    assert lone.quota("cards") == np.inf
    assert lone.quota("g") < 380


def test_exempt_groups_that_are_too_large_suffer_a_share_of_the_cut() -> None:
    lone = Lone(Aup(limit_bytes_s=1000, alpha=1, beta=1, priorities={"cards": 0.0}, exempt_max=0.4), ("cards", "g"))
    lone.epoch(cards=750, g=500)
    assert lone.quota("cards") == pytest.approx(750 * (1 - 0.2 / 4))
    assert lone.quota("g") == pytest.approx(400)


def test_a_priority_between_scales_the_cut() -> None:
    lone = Lone(Aup(limit_bytes_s=1000, alpha=1, beta=1, priorities={"g": 0.5}))
    lone.epoch(g=1250)
    assert lone.quota() == pytest.approx(1250 * 0.9)


def test_reports_are_a_fraction_of_the_packets() -> None:
    lone = Lone(Aup(limit_bytes_s=1e9, report_fraction=0.01), seed=5)
    reports = 0
    for _ in range(500):
        for _ in range(20):
            lone.tally.sent("g", "n1", 100)
        reports += len(lone.epoch().reported)
    assert 70 <= reports <= 130


def test_the_newest_policy_is_adopted_and_an_older_one_is_not() -> None:
    lone = Lone()
    newer = AUP.successor("bob", limit_bytes_s=500)
    assert lone.node.hear(Policy.of("n2", newer))
    assert lone.node.aup == newer
    assert not lone.node.hear(Policy.of("n3", AUP))
    assert not lone.node.hear(Policy.of("n3", newer))
    assert lone.node.aup == newer


def test_of_two_policies_of_one_version_all_nodes_choose_the_same() -> None:
    one, other = AUP.successor("ann", limit_bytes_s=500), AUP.successor("bob", limit_bytes_s=700)
    first, second = Lone().node, Lone().node
    for node, order in ((first, (one, other)), (second, (other, one))):
        for aup in order:
            node.hear(Policy.of("n9", aup))
    assert first.aup == second.aup == other


def test_who_hears_of_an_older_policy_announces_its_own() -> None:
    lone = Lone()
    for number in range(6):
        lone.node.hear(Report(f"n{number + 2}", 3, ()))
    silent = sum(lone.epoch(g=1).policy is None for _ in range(18))
    assert silent > 9, "about one of seven repeats it in an epoch"
    announced = 0
    for _ in range(20):
        for number in range(6):
            lone.node.hear(Report(f"n{number + 2}", 0 if number == 5 else 3, ()))
        announced += lone.epoch(g=1).policy is not None
    assert announced > 4, "about three of seven do when somebody lacks it"


def test_nobody_announces_that_there_is_no_policy() -> None:
    lone = Lone(Aup(limit_bytes_s=1000))
    assert all(lone.epoch(g=1).policy is None for _ in range(20))


def test_a_limit_that_is_lifted_frees_everybody() -> None:
    lone = Lone()
    lone.epoch(g=2000)
    assert lone.quota() < 2000
    lone.node.hear(Policy.of("n2", AUP.successor("bob", limit_bytes_s=None)))
    assert lone.quota() == np.inf


def test_a_new_length_of_epochs_frees_quotas_that_were_per_epoch() -> None:
    lone = Lone()
    lone.epoch(g=2000)
    lone.node.hear(Policy.of("n2", AUP.successor("bob", epoch_ms=200)))
    assert lone.quota() == np.inf


def test_its_own_messages_say_nothing_to_a_node() -> None:
    lone = Lone()
    lone.node.hear(Report("n1", 0, (Entry("other", 5000.0, 1.0),)))
    lone.epoch(g=100)
    assert lone.node.estimates[Unit.BYTES] == 100


def test_under_a_hard_limit_a_node_announces_its_demand_and_waits_for_its_share() -> None:
    lone = Lone(Aup(limit_bytes_s=1000, mode="hard", hard_share=0.9))
    assert lone.node.budgets[0] == 0
    first = lone.epoch(g=500)
    assert first.demand == Demand("n1", 0, 1, 500, 1)
    assert lone.node.budgets.tolist() == [0, np.inf]
    lone.node.hear(Demand("n2", 0, 1, 500, 1))
    lone.epoch(g=500)
    assert lone.node.budgets[0] == 450


def test_places_of_closed_channels_are_used_again() -> None:
    lone = Lone(groups=("g", "h"))
    lone.epoch(g=2000, h=2000)
    lone.node.close_channel(lone.places["g"])
    assert [each.channel.group for each in lone.node.slowed()] == ["h"]
    assert lone.node.open_channel(Channel("n1", "new")) == lone.places["g"]
    assert lone.quota("g") == np.inf


def test_silent_nodes_are_not_counted_for_ever() -> None:
    lone = Lone()
    for number in range(10):
        lone.node.hear(Report(f"n{number + 2}", 3, ()))
    assert lone.node.nodes_heard == 10
    for _ in range(40):
        lone.epoch(g=1)
    assert lone.node.nodes_heard == 0


def test_impossible_places_never_come_up_and_certain_ones_always() -> None:
    rng = Random(1)
    chances = np.array([0.0, 1.0, 0.0, 1.0])
    for _ in range(50):
        assert drawn(chances, rng).tolist() == [1, 3]


def test_nothing_to_draw_draws_nothing() -> None:
    assert drawn(np.zeros(0), Random(1)).tolist() == []
    assert drawn(np.zeros(3), Random(1)).tolist() == []


@pytest.mark.parametrize("chances", [[0.01, 0.3, 0.05, 0.2], [0.9, 0.5, 0.1, 1.0]])
def test_every_place_comes_up_with_its_own_chance(chances: list[float]) -> None:
    rng, rounds = Random(7), 20_000
    counts = np.zeros(len(chances))
    for _ in range(rounds):
        counts[drawn(np.array(chances), rng)] += 1
    for count, chance in zip(counts, chances, strict=True):
        assert abs(count / rounds - chance) <= 4 * (chance * (1 - chance) / rounds) ** 0.5


def test_places_come_up_independently() -> None:
    rng, rounds = Random(3), 20_000
    both = sum(len(drawn(np.array([0.2, 0.3]), rng)) == 2 for _ in range(rounds))
    assert abs(both / rounds - 0.06) < 0.008
