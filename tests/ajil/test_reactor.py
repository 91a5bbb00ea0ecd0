from __future__ import annotations

import numpy as np

from penstock.ajil.policy import FlatTax, GlobalPercentage, LocalPercentage, NaiveZero, SlowdownPolicy
from penstock.ajil.reactor import HOLD_EPOCHS_MAX, MULTIPLIER_MIN, Reactor


class Channels:
    """A reactor with two channels that both want 100, told what happens."""

    def __init__(self, policy: SlowdownPolicy) -> None:
        self.reactor, self.policy = Reactor(), policy
        self.reactor.resize(2)

    def over(self, estimate: float, hit: tuple[bool, bool] = (True, False), *, scale: float = 1.0) -> None:
        sent = np.minimum(self.reactor.quota, 100.0)
        self.reactor.cut(np.array(hit), sent, np.full(2, scale), self.policy, estimate=estimate, limit=600.0)
        self.reactor.check_invariants()

    def under(self, estimate: float) -> None:
        self.reactor.rise(estimate=estimate, limit=600.0)
        self.reactor.check_invariants()

    @property
    def quotas(self) -> list[float]:
        return [float(each) for each in self.reactor.quota]


def test_a_channel_begins_from_what_it_sent_and_others_are_left_alone() -> None:
    channels = Channels(GlobalPercentage())
    channels.over(750)
    assert channels.quotas == [80, np.inf]


def test_cuts_compound_while_the_channel_is_in_the_domain() -> None:
    channels = Channels(GlobalPercentage())
    channels.over(750)
    channels.over(750)
    assert channels.quotas[0] == 80 * 0.8
    assert channels.reactor.multiplier[0] == 1


def test_half_the_cut_is_taken_if_that_is_enough_and_the_multiplier_stays_halved() -> None:
    channels = Channels(FlatTax(20))
    channels.over(605)
    assert channels.quotas[0] == 90
    assert channels.reactor.multiplier[0] == 0.5
    channels.over(700)
    assert channels.quotas[0] == 80, "the multiplier persists: the tax of 20 counts half"
    assert channels.reactor.multiplier[0] == 0.5


def test_the_whole_cut_is_taken_if_half_is_not_enough() -> None:
    channels = Channels(FlatTax(20))
    channels.over(611)
    assert channels.quotas[0] == 80
    assert channels.reactor.multiplier[0] == 1


def test_half_of_the_last_cut_comes_back_when_there_is_room_and_halves_it_and_the_multiplier() -> None:
    channels = Channels(GlobalPercentage())
    channels.over(750)
    channels.under(590)
    assert channels.quotas[0] == 90
    assert (channels.reactor.last_cut[0], channels.reactor.multiplier[0]) == (10, 0.5)


def test_a_channel_holds_while_half_of_the_last_cut_would_not_fit() -> None:
    channels = Channels(GlobalPercentage())
    channels.over(750)
    channels.under(590.5)
    assert channels.quotas[0] == 80
    assert channels.reactor.multiplier[0] == 1


def test_after_rising_a_cut_counts_by_the_multiplier() -> None:
    channels = Channels(LocalPercentage(0.1))
    channels.over(750)
    channels.under(500)
    assert channels.quotas[0] == 95
    channels.over(750)
    assert channels.quotas[0] == 95 - 0.5 * 9.5


def test_a_slowdown_is_over_when_the_multiplier_is_small() -> None:
    channels = Channels(GlobalPercentage())
    channels.over(750)
    for _ in range(6):
        channels.under(400)
    assert channels.reactor.multiplier[0] == MULTIPLIER_MIN
    assert channels.quotas[0] < 100
    channels.under(400)
    assert channels.quotas[0] == np.inf
    assert not channels.reactor.is_slowing
    channels.over(750)
    assert channels.quotas[0] == 80, "a new slowdown begins with a multiplier of 1"


def test_the_naive_policy_stops_a_channel_and_lets_it_come_back_by_halves() -> None:
    channels = Channels(NaiveZero())
    channels.over(750)
    assert channels.quotas[0] == 0
    channels.over(750)
    channels.under(400)
    assert channels.quotas[0] == 50
    channels.under(400)
    assert channels.quotas[0] == 75


def test_no_cut_goes_below_nothing() -> None:
    channels = Channels(FlatTax(1000))
    channels.over(5000)
    assert channels.quotas[0] == 0
    assert channels.reactor.last_cut[0] == 100


def test_a_priority_scales_the_cut() -> None:
    channels = Channels(GlobalPercentage())
    channels.over(750, scale=0.25)
    assert channels.quotas[0] == 95
    exempt = Channels(GlobalPercentage())
    exempt.over(750, scale=0)
    assert exempt.quotas == [np.inf, np.inf]


def test_who_sends_nothing_is_not_slowed_down() -> None:
    reactor = Reactor()
    reactor.resize(1)
    reactor.cut(np.array([True]), np.zeros(1), np.ones(1), FlatTax(5), estimate=700, limit=600)
    assert reactor.quota.tolist() == [np.inf]


def test_a_released_place_is_unlimited_for_the_next() -> None:
    channels = Channels(GlobalPercentage())
    channels.over(750)
    channels.reactor.release(0)
    assert channels.quotas == [np.inf, np.inf]
    channels.over(750, (True, True))
    channels.reactor.clear()
    assert channels.quotas == [np.inf, np.inf]
    assert not channels.reactor.is_slowing


def test_new_channels_are_not_slowed_down() -> None:
    channels = Channels(GlobalPercentage())
    channels.over(750)
    channels.reactor.resize(3)
    assert channels.quotas == [80, np.inf, np.inf]


def test_a_channel_that_never_finds_enough_room_asks_for_less_after_a_while() -> None:
    channels = Channels(NaiveZero())
    channels.over(750)
    for _ in range(HOLD_EPOCHS_MAX):
        channels.under(570)
    assert channels.quotas[0] == 0, "half of its cut is 50, and there is room for 30"
    channels.under(570)
    assert channels.quotas[0] == 25


def test_nobody_waits_for_more_room_than_the_limit() -> None:
    reactor = Reactor()
    reactor.resize(1)
    reactor.cut(np.array([True]), np.array([9000.0]), np.ones(1), LocalPercentage(0.5), estimate=9000, limit=600)
    assert (reactor.quota.tolist(), reactor.last_cut.tolist()) == ([4500], [600])
    reactor.rise(estimate=300, limit=600)
    assert reactor.quota.tolist() == [4800]


def test_a_channel_with_which_something_waits_keeps_its_quota_and_begins_anew() -> None:
    reactor = Reactor()
    reactor.resize(2)
    both = np.array([True, True])
    reactor.cut(both, np.full(2, 400.0), np.ones(2), GlobalPercentage(), estimate=800, limit=600)
    for _ in range(7):
        reactor.rise(estimate=500, limit=600, waiting=np.array([True, False]))
        reactor.check_invariants()
    assert reactor.quota[1] == np.inf
    assert 390 < reactor.quota[0] < 400
    assert reactor.multiplier[0] == 1
    assert reactor.last_cut[0] == reactor.quota[0] / 5, "there is room for a fifth more of everything"


def test_a_channel_with_a_backlog_is_cut_firmly_again() -> None:
    for waits, left in ((True, 95 - 9.5), (False, 95 - 0.5 * 9.5)):
        channels = Channels(LocalPercentage(0.1))
        channels.over(750)
        channels.under(500)
        waiting = np.array([waits, waits])
        sent = np.full(2, 95.0)
        channels.reactor.cut(
            np.array([True, False]), sent, None, channels.policy, estimate=750, limit=600, waiting=waiting
        )
        assert channels.quotas[0] == left
        assert channels.reactor.multiplier[0] == (1 if waits else 0.5), "doubled, and never more than 1"
