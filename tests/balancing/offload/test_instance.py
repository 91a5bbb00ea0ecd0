"""The number of subscribers to move, what a move does to both estimates, and what the guard allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.balancing.detection import Triggers
from penstock.balancing.estimators import Figures
from penstock.balancing.offload.instance import Guard, Interest, Offload, Profile
from penstock.balancing.press import Press
from penstock.balancing.settings import BalancingSettings
from penstock.model.metrics import BALANCED, DELAY, INPUT, OUTPUT, Metric

SETTINGS = BalancingSettings()
BYTES_S = 100_000.0
IDLE = Figures(0.0, 0, 0.0, BYTES_S, 0.0, 0.0002)


def work_of(
    counts: list[int], vectors: list[str], host: Figures, partner: Figures, *, css: str = "", stays: bool = False
) -> Offload:
    """Interests with so many subscribers and these bit vectors, first publication at the right."""
    length = len(vectors[0])
    press = Press(len(vectors), samples_max=length)
    for place in range(length):
        bit = length - 1 - place
        matched = np.flatnonzero([vector[bit] == "1" for vector in vectors])
        press.record(matched, is_covered=bool(css) and css[bit] == "1")
    interests = [
        Interest(f"i{place}", tuple(range(100 * place, 100 * place + count)), stays)
        for place, count in enumerate(counts)
    ]
    return Offload(Profile(interests, press, 100.0, 10.0), host, partner, SETTINGS, Triggers.local(SETTINGS))


def test_so_many_move_that_the_metric_is_balanced() -> None:
    host = Figures(10.0, 100, 10_000.0, BYTES_S, 0.0, 0.0002)
    work = work_of([100], ["1000000000"], host, IDLE)
    counts, differences = work.counts(DELAY)
    assert counts.tolist() == [50]
    assert differences[0] == pytest.approx(0.0)


def test_no_more_move_than_the_partner_can_bear() -> None:
    host = Figures(10.0, 100, 90_000.0, BYTES_S, 0.0, 0.0002)
    weak = Figures(0.0, 0, 0.0, 1000.0, 0.0, 0.0002)
    # Each of the subscribers takes 9 of 10 messages of 100 bytes: 900 bytes a second, the limit of the partner.
    work = work_of([100], ["0111111111"], host, weak)
    assert work.counts(DELAY)[0].tolist() == [1]
    work.take(0, 1, 0.0, is_covered=False)
    assert work.partner.output == pytest.approx(0.9)
    assert work.counts(DELAY)[0].tolist() == [0]


def test_memory_and_cpu_of_the_partner_are_bounds_too() -> None:
    host = Figures(10.0, 100, 20_000.0, BYTES_S, 0.0, 0.0002)
    full = Figures(0.0, 0, 0.0, BYTES_S, 0.0, 0.0002, 0.0, 0.85, 0.01)
    assert work_of([100], ["0000000000"], host, full).counts(DELAY)[0].tolist() == [5]
    busy = Figures(0.0, 0, 0.0, BYTES_S, 0.0, 0.0002, 0.89, 0.0)
    # One message a second and 0.2 ms for each subscription: one per cent of CPU is fifty of them.
    assert work_of([100], ["0000000001"], host, busy).counts(DELAY)[0].tolist() == [50]
    assert work_of([100], ["0000000011"], host, busy).counts(DELAY)[0].tolist() == [25]


def test_a_move_updates_both_estimates_and_the_covering_set() -> None:
    host = Figures(10.0, 10, 1000.0, 10_000.0, 0.0, 0.0002)
    work = work_of([4, 6], ["0000000111", "0000001100"], host, IDLE, css="0000000001")
    assert work.added().tolist() == [2.0, 2.0]
    assert work.reduced().tolist() == [2.0, 1.0]
    work.take(0, 4, 0.1, is_covered=False)
    assert (work.host.rate_msg_s, work.host.subscriptions, work.host.bytes_out_s) == (8.0, 6, -200.0)
    assert (work.partner.rate_msg_s, work.partner.subscriptions, work.partner.bytes_out_s) == (2.0, 4, 1200.0)
    assert work.added().tolist() == [0.0, 1.0]
    assert work.moves == {0: 4}
    assert work.moved == 4
    assert work.cards[0].rate_reduced_msg_s == 2.0
    assert work.present.tolist() == [False, True]


def test_input_does_not_fall_while_somebody_stays() -> None:
    host = Figures(10.0, 10, 1000.0, 10_000.0, 0.0, 0.0002)
    work = work_of([4], ["0000000111"], host, IDLE, stays=True)
    assert work.reduced().tolist() == [0.0]
    work.take(0, 4, 0.1, is_covered=False)
    assert work.host.rate_msg_s == 10.0
    assert work.present.tolist() == [True]


def test_a_partner_that_knows_nothing_of_itself_is_taken_for_a_slower_one() -> None:
    host = Figures(10.0, 100, 0.0, 10_000.0, 0.001, 0.0002)
    unknown = Figures(0.0, 0, 0.0, 10_000.0, 0.0, 0.0)
    work = work_of([100], ["0000000000"], host, unknown)
    assert work.partner.delay_slope_s == 0.0004


def test_moves_are_bounded() -> None:
    host = Figures(10.0, 100, 0.0, 10_000.0, 0.0, 0.0002)
    few = BalancingSettings(moves_max=3)
    work = work_of([100], ["0000000000"], host, IDLE)
    bounded = Offload(work.profile, host, IDLE, few, work.triggers)
    assert bounded.counts(DELAY)[0].tolist() == [3]
    bounded.take(0, 3, 0.1, is_covered=False)
    assert bounded.is_done(DELAY)


def test_relief_takes_as_many_as_it_needs_and_no_more_than_the_partner_bears() -> None:
    busy = Figures(10.0, 100, 0.0, BYTES_S, 0.0, 0.0004, 1.0, 0.0)
    work = work_of([100], ["0000000000"], busy, IDLE)
    assert work.relief(0)[0] == 25
    full = Figures(0.0, 0, 0.0, BYTES_S, 0.0, 0.0002, 0.0, 0.85, 0.01)
    assert work_of([100], ["0000000000"], busy, full).relief(0)[0] == 5
    assert work_of([0], ["0000000000"], busy, IDLE).relief(0)[0] == 0


GUARD = Guard(0.5, Triggers(0.1, 0.1, 0.1))
ALL = BALANCED
APART = st.fixed_dictionaries({metric: st.floats(-1, 1) for metric in ALL})


def apart(own: float, output: float = 0.0, delay: float = 0.0) -> dict[Metric, float]:
    return {INPUT: own, OUTPUT: output, DELAY: delay}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (apart(0.20, 0.00), apart(0.19, -0.05), True),  # free
        (apart(0.20, 0.00), apart(0.19, -0.06), False),  # 0.01 beyond the guard, for 0.01
        (apart(0.20, 0.00), apart(0.18, -0.06), True),  # 0.01 for 0.02
        (apart(0.20, -0.06), apart(0.19, -0.0651), False),
        (apart(0.20, -0.06, -0.06), apart(0.18, -0.07, -0.07), False),  # all others together
        (apart(0.20, 0.00), apart(0.00, -0.0751), False),  # beyond halfway to the trigger
        (apart(0.20, -0.12), apart(0.00, -0.1201), False),  # not at all where it is beyond that
        (apart(0.20, -0.12), apart(0.15, -0.12), True),
        (apart(0.20, 0.12), apart(0.00, -0.075), True),  # the order turns, but not by as much
        (apart(0.20, 0.12), apart(0.00, -0.11), False),
        (apart(0.04, -0.06), apart(0.00, -0.061), False),  # within its guard, own gains count for nothing
        (apart(0.04, -0.02), apart(0.00, -0.04), True),
    ],
)
def test_what_a_step_may_do_to_others(
    before: dict[Metric, float], after: dict[Metric, float], *, expected: bool
) -> None:
    assert bool(GUARD.allows(INPUT, before, after)) is expected


def test_many_cases_at_once_are_as_each_of_them() -> None:
    after = {INPUT: np.array([0.19, 0.18]), OUTPUT: np.array([-0.06, -0.06]), DELAY: np.zeros(2)}
    assert GUARD.allows(INPUT, apart(0.2), after).tolist() == [False, True]


def test_the_potential_is_what_is_beyond_the_guards() -> None:
    assert GUARD.potential(apart(0.2, -0.07, 0.05)) == pytest.approx(0.15 + 0.02)


@given(APART, APART, st.sampled_from(ALL))
def test_whatever_is_allowed_lowers_the_potential_by_at_least_half_of_its_own_gain(
    before: dict[Metric, float], after: dict[Metric, float], metric: Metric
) -> None:
    after[metric] = before[metric] * abs(after[metric])
    if not GUARD.allows(metric, before, after):
        return
    gain = GUARD.potential({metric: before[metric]}) - GUARD.potential({metric: after[metric]})
    assert GUARD.potential(before) - GUARD.potential(after) >= gain / 2 - 1e-9
    for other in ALL:
        if abs(before[other]) <= 0.1:
            assert abs(after[other]) <= 0.1, "what starts no session before starts none after"
