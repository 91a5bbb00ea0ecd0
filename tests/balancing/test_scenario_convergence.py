"""Convergence as a property: every step brings the brokers closer, and no algorithm undoes what another did."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancing.instances import SETTINGS, random_work
from penstock.balancing.offload import ALGORITHMS, Coverage, Offload
from penstock.model.metrics import BALANCED, Metric

SEEDS = st.integers(0, 100_000)


class Watched(Offload):
    """An offload that keeps all differences, before and after each step."""

    def watch(self) -> None:
        self.seen = [self.differences()]

    def take(self, place: int, count: int, difference: float, *, is_covered: bool) -> None:
        super().take(place, count, difference, is_covered=is_covered)
        self.seen.append(self.differences())


def watched(seed: int) -> tuple[Watched, Coverage]:
    work, coverage = random_work(seed)
    made = Watched(work.profile, work.host, work.partner, work.settings, work.triggers)
    made.watch()
    return made, coverage


@pytest.mark.parametrize("metric", BALANCED)
@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_each_accepted_step_strictly_reduces_the_difference(metric: Metric, seed: int) -> None:
    work, coverage = random_work(seed)
    before = work.difference(metric)
    if before <= SETTINGS.balance_threshold:
        return
    ALGORITHMS[metric](work, coverage)
    distances = [abs(before), *(abs(card.difference) for card in work.cards)]
    assert all(later < earlier for earlier, later in pairwise(distances)), distances
    assert abs(work.difference(metric)) == pytest.approx(distances[-1])


@pytest.mark.parametrize("metric", BALANCED)
@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_the_potential_falls_with_each_accepted_step(metric: Metric, seed: int) -> None:
    """By at least half of what the step gains for its own metric; so no step can ever be undone by others."""
    work, coverage = watched(seed)
    if work.difference(metric) <= SETTINGS.balance_threshold:
        return
    ALGORITHMS[metric](work, coverage)
    for before, after in pairwise(work.seen):
        gain = work.guard.potential({metric: before[metric]}) - work.guard.potential({metric: after[metric]})
        fall = work.guard.potential(before) - work.guard.potential(after)
        assert gain >= -1e-9
        assert fall >= gain / 2 - 1e-9, (before, after)
        for other in BALANCED:
            trigger = work.triggers.of(other)
            assert abs(after[other]) <= max(abs(before[other]), trigger) + 1e-9, "no session is called for"


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_what_triggers_sessions_only_shrinks_whatever_algorithm_runs(seed: int) -> None:
    """Potential and sum of what is beyond the triggers fall with every session: so no cycle of sessions exists."""
    work, _ = random_work(seed)
    for _ in range(6):
        excess, potential = _excess(work), work.guard.potential(work.differences())
        due = [metric for metric in BALANCED if work.difference(metric) > work.triggers.of(metric)]
        if not due:
            return
        _, coverage = random_work(seed)
        count = len(work.cards)
        ALGORITHMS[due[0]](work, coverage)
        if len(work.cards) == count:
            return
        assert _excess(work) < excess
        assert work.guard.potential(work.differences()) < potential


def _excess(work: Offload) -> float:
    return sum(max(abs(work.difference(metric)) - work.triggers.of(metric), 0.0) for metric in BALANCED)


@pytest.mark.parametrize("metric", BALANCED)
@given(seed=SEEDS, is_overload=st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_partner_never_becomes_overloaded_and_nobody_moves_twice(
    metric: Metric, seed: int, *, is_overload: bool
) -> None:
    work, coverage = random_work(seed, is_overload=is_overload)
    if max(work.partner.input, work.partner.output) > SETTINGS.lower_overload:
        return
    ALGORITHMS[metric](work, coverage)
    low = SETTINGS.lower_overload + 1e-9
    if work.moves:
        assert max(work.partner.input, work.partner.output, work.partner.cpu, work.partner.memory) <= low
    for place, count in work.moves.items():
        assert 0 < count <= len(work.profile.interests[place].subscribers)
    assert sum(card.subscribers for card in work.cards) == work.moved
    assert work.host.subscriptions >= 0
    assert work.host.rate_msg_s >= 0
