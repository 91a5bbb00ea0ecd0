from __future__ import annotations

import numpy as np

from penstock.ajil.policy import FlatTax, GlobalPercentage, LocalPercentage, NaiveZero, SlowdownPolicy

QUOTA, MULTIPLIER = np.array([100.0, 40.0]), np.array([1.0, 0.5])


def cut(policy: SlowdownPolicy) -> list[float]:
    return [float(each) for each in policy.cut(QUOTA, MULTIPLIER, estimate=800.0, limit=600.0)]


def test_flat_tax_cuts_a_constant_by_the_multiplier() -> None:
    assert cut(FlatTax(10)) == [10, 5]


def test_local_percentage_cuts_a_fixed_share() -> None:
    assert cut(LocalPercentage(0.1)) == [10, 2]


def test_global_percentage_cuts_the_share_in_excess_relative_to_the_estimate() -> None:
    assert cut(GlobalPercentage()) == [25, 5]


def test_the_naive_policy_cuts_everything_whatever_the_multiplier() -> None:
    assert cut(NaiveZero()) == [100, 40]
