"""Convergence as a property: every step brings the brokers closer, and no algorithm undoes what another did."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancing.instances import SETTINGS, random_work
from penstock.balancing.metrics import Metric
from penstock.balancing.offload import ALGORITHMS

SEEDS = st.integers(0, 100_000)


@pytest.mark.parametrize("metric", list(Metric))
@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_each_accepted_step_strictly_reduces_the_difference(metric: Metric, seed: int) -> None:
    work, coverage = random_work(seed)
    before = work.difference(metric)
    if before <= SETTINGS.balance_threshold:
        return
    others = {other: work.difference(other) for other in Metric if other is not metric}
    ALGORITHMS[metric](work, coverage)
    distances = [abs(before), *(abs(card.difference) for card in work.cards)]
    assert all(later < earlier for earlier, later in pairwise(distances)), distances
    assert abs(work.difference(metric)) == pytest.approx(distances[-1])
    for other, former in others.items():
        guard = SETTINGS.guard_share * work.triggers.of(other)
        assert min(former, -guard) - 1e-9 <= work.difference(other) <= max(former, guard) + 1e-9, "no order is turned"


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_what_triggers_sessions_only_shrinks_whatever_algorithm_runs(seed: int) -> None:
    """The sum of what is beyond the triggers falls with every session: so no cycle of sessions exists."""
    work, _ = random_work(seed)
    for _ in range(6):
        excess = _excess(work)
        due = [metric for metric in Metric if work.difference(metric) > work.triggers.of(metric)]
        if not due:
            return
        metric = due[0]
        _, coverage = random_work(seed)
        count = len(work.cards)
        ALGORITHMS[metric](work, coverage)
        if len(work.cards) == count:
            return
        assert _excess(work) < excess


def _excess(work: object) -> float:
    return sum(
        max(abs(work.difference(metric)) - work.triggers.of(metric), 0.0)  # type: ignore[attr-defined]
        for metric in Metric
    )


@pytest.mark.parametrize("metric", list(Metric))
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
