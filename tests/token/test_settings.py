"""The time constants: those of the paper, those derived, and those that cannot work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.token.settings import PAPER, SWIFT, Constants, Plan, TokenError


def test_the_constants_are_those_of_table_1_with_a_unit_of_a_second() -> None:
    constants = Constants()
    assert (constants.skip_ms, constants.op_ms, constants.min_ms, constants.max_ms) == (
        1_000,
        4_000,
        600_000,
        1_800_000,
    )
    assert (constants.growth, constants.decay, constants.variant) == (1.5, 0.05, SWIFT)
    assert constants.k_load(150) == 1.0
    assert constants.k_load(300) == 2.0


def test_constants_derived_for_the_nominal_size_are_those_of_table_1() -> None:
    assert Constants.for_size(150) == Constants()


@pytest.mark.parametrize("size", [1, 2, 5, 150, 1_000, 100_000])
def test_derived_constants_keep_the_proportions_of_the_paper(size: int) -> None:
    constants = Constants.for_size(size)
    assert 1.0 <= constants.min_ms / (constants.op_ms * size) <= 1.5
    assert 0.2 <= constants.op_ms * size / constants.max_ms <= 0.35
    assert constants.k_load(size) <= 1.0
    assert constants.probation_ms < constants.max_ms


@pytest.mark.parametrize(("size", "times"), [(5, 3.0), (300, 3.0), (1_000, 3.3), (100_000, 4.45), (10**7, 5.0)])
def test_large_groups_wait_a_little_longer_for_a_lost_token(size: int, times: float) -> None:
    constants = Constants.for_size(size, op_ms=40)
    assert constants.max_ms / constants.min_ms == pytest.approx(times, abs=0.01)


def test_a_lower_load_and_a_longer_period_are_given_when_asked_for() -> None:
    assert Constants.for_size(150, load=0.8).min_ms == 750_000
    assert Constants.for_size(10, min_ms=100_000).min_ms == 100_000
    assert Constants.for_size(100, min_ms=100_000).min_ms == 400_000


def test_a_period_that_is_asked_for_stays_and_the_group_is_overloaded() -> None:
    constants = Constants.for_period(1_000, min_ms=600_000, op_ms=4_000)
    assert constants.min_ms == 600_000
    assert constants.k_load(1_000) > 1.0
    assert constants.op_ms * 1_000 / constants.max_ms <= 0.35


def test_a_plan_derives_by_size_or_by_period() -> None:
    assert Plan(op_ms=4_000).constants(300).min_ms == 1_200_000
    assert Plan(op_ms=4_000, min_ms=600_000).constants(300).min_ms == 600_000
    assert Plan(op_ms=40, skip_ms=7, variant=PAPER).constants(3) == Constants.for_size(
        3, op_ms=40, skip_ms=7, variant=PAPER
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"variant": "fast"}, "no variant 'fast', only paper and swift"),
        ({"skip_ms": 0}, "skip_ms is 0, must be 1 to"),
        ({"op_ms": 4.0}, "op_ms is 4.0, must be of type int"),
        ({"skip_ms": 5_000}, "must grow in this order"),
        ({"max_ms": 600_000}, "must grow in this order"),
        ({"growth": 0.9}, "growth is 0.9, must be 1 to 10"),
        ({"growth": float("nan")}, "growth is nan"),
        ({"decay": 1.1}, "decay is 1.1, must be 0 to 1"),
        ({"probation_ms": 1_800_000}, "probation_ms 1800000 is not below max_ms"),
        ({"max_ms": 10**15}, "max_ms is"),
    ],
)
def test_constants_that_cannot_work_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TokenError, match=complaint):
        replace(Constants(), **change)


def test_sizes_and_loads_that_cannot_be_are_refused() -> None:
    with pytest.raises(TokenError, match="a group needs at least 1 component, not 0"):
        Constants.for_size(0)
    with pytest.raises(TokenError, match="a group needs at least 1 component, not -1"):
        Constants.for_period(-1, min_ms=10, op_ms=1)
    with pytest.raises(TokenError, match="load 0 is not above 0"):
        Constants.for_size(1, load=0)
    with pytest.raises(TokenError, match="must grow in this order"):
        Plan(op_ms=4_000, min_ms=1_000)


@pytest.mark.parametrize(("size", "skips"), [(5, 10), (150, 100), (300, 100), (10_000, 570), (100_000, 1_803)])
def test_probation_is_long_enough_for_rivals_to_meet_and_shorter_than_half_a_round(size: int, skips: int) -> None:
    assert Constants.for_size(size).probation_ms == skips * 1_000


def test_the_variant_alone_can_be_changed() -> None:
    assert Constants().of_variant(PAPER) == replace(Constants(), variant=PAPER)
