"""Publishers move to balance input: who goes, what that is estimated to change, and where it ends."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from balancing.offload.test_instance import work_of
from penstock.balancing.estimators import Figures
from penstock.balancing.offload.algorithms import offload_input, offload_match, offload_publishers
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Leaver, Offload, Profile, Publishing
from penstock.balancing.press import Press
from penstock.model.metrics import BALANCED, DELAY, INPUT

HOST = Figures(40.0, 10, 100.0, 10_000.0, 0.0, 0.001)
PARTNER = Figures(10.0, 10, 0.0, 100_000.0, 0.0, 0.001)


def work_with(*leavers: Leaver, host: Figures = HOST, partner: Figures = PARTNER, is_overload: bool = False) -> Offload:
    work = work_of([1], ["0000000000"], host, partner)
    work.is_overload = is_overload
    work.leavers = list(leavers)
    return work


def leaver(number: int, saved: float, added: float | None = None) -> Leaver:
    return Leaver(number, f"p{number}", saved, saved if added is None else added)


def test_what_is_for_a_pubend_here_or_there_changes_only_one_side() -> None:
    publishing = Publishing(7, "feed", {"a": 3.0, "b": 4.0, "c": 5.0})
    profile = Profile([], Press(0, samples_max=1), 0.0, publishing=[publishing, Publishing(8, "own", {"a": 9.0})])
    (only,) = profile.leavers("a", "b")
    assert (only.connection, only.saved_msg_s, only.added_msg_s) == (7, 9.0, 8.0)


def test_publishers_go_until_the_inputs_are_balanced() -> None:
    work = work_with(*(leaver(number, 3.0) for number in range(10)))
    offload_publishers(work)
    assert len(work.leaving) == 5
    assert work.difference(INPUT) == pytest.approx(0.0)
    assert [card.interest for card in work.cards][:1] == ["publisher p0"]
    assert work.moved == 5


def test_who_publishes_to_a_pubend_of_the_partner_goes_first() -> None:
    work = work_with(leaver(1, 15.0), leaver(2, 5.0, 0.0))
    offload_publishers(work)
    assert [each.connection for each in work.leaving] == [2, 1]


def test_a_partner_without_subscriptions_is_as_busy_as_it_says() -> None:
    """As heads are that only publishers are connected to: their matching delay depends on nothing."""
    host = Figures(40.0, 0, 0.0, 10_000.0, 0.01, 0.0)
    partner = Figures(10.0, 0, 0.0, 10_000.0, 0.02, 0.0)
    work = work_with(*(leaver(number, 2.0) for number in range(20)), host=host, partner=partner)
    offload_publishers(work)
    assert len(work.leaving) == 3
    assert work.difference(INPUT) == pytest.approx(0.02)


def test_nobody_goes_if_that_would_turn_the_difference_around_further_than_it_was() -> None:
    work = work_with(leaver(1, 31.0))
    offload_publishers(work)
    assert not work.leaving


def test_an_overloaded_broker_gives_away_what_its_partner_has_room_for() -> None:
    host = replace(HOST, rate_msg_s=100.0, cpu=1.0)
    work = work_with(*(leaver(number, 10.0) for number in range(10)), host=host, is_overload=True)
    offload_match(work, Coverage(work.profile.interests, []))
    assert 1 <= len(work.leaving) < 10
    assert work.partner.input <= work.settings.lower_overload
    assert not work.is_host_overloaded(DELAY)


def test_a_full_partner_gets_only_those_that_add_nothing() -> None:
    partner = replace(PARTNER, rate_msg_s=89.0, cpu=0.89)
    host = replace(HOST, rate_msg_s=200.0, cpu=1.0)
    work = work_with(leaver(1, 20.0), leaver(2, 20.0, 0.0), host=host, partner=partner, is_overload=True)
    offload_publishers(work)
    assert [each.connection for each in work.leaving] == [2]


@pytest.mark.parametrize("seed", range(50))
def test_every_step_narrows_the_input_and_touches_nothing_else(seed: int) -> None:
    rng = Random(seed)
    rates = [(rng.uniform(0.1, 5), rng.choice((0.0, 1.0))) for _ in range(20)]
    work = work_with(*(leaver(number, rate, rate * share) for number, (rate, share) in enumerate(rates)))
    before = work.differences()
    offload_input(work, Coverage(work.profile.interests, []))
    assert abs(work.difference(INPUT)) <= abs(before[INPUT])
    for metric in BALANCED:
        if metric is not INPUT and not work.moves:
            assert work.difference(metric) == before[metric]
