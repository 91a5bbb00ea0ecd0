"""The guard: what is free, what has its price, and what is forbidden."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.balancing.detection import Triggers
from penstock.balancing.metrics import Metric
from penstock.balancing.offload.guard import Guard

GUARD = Guard(0.5, Triggers(0.1, 0.1, 0.1))
ALL = list(Metric)
APART = st.fixed_dictionaries({metric: st.floats(-1, 1) for metric in ALL})


def apart(own: float, output: float = 0.0, delay: float = 0.0) -> dict[Metric, float]:
    return {Metric.INPUT: own, Metric.OUTPUT: output, Metric.DELAY: delay}


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
    assert bool(GUARD.allows(Metric.INPUT, before, after)) is expected


def test_many_cases_at_once_are_as_each_of_them() -> None:
    after = {Metric.INPUT: np.array([0.19, 0.18]), Metric.OUTPUT: np.array([-0.06, -0.06]), Metric.DELAY: np.zeros(2)}
    assert GUARD.allows(Metric.INPUT, apart(0.2), after).tolist() == [False, True]


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
