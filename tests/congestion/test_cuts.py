from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion import CongestionSettings, Uca
from penstock.congestion.cuts import Rates, factor_cut, horizon_cut, increased

PAPER = CongestionSettings.paper()
SWIFT = CongestionSettings.swift(decrease_factor=0.25, cut_factor_max=0.97, drain_ms=2000, recovering_margin=1.0)


@pytest.mark.parametrize(
    ("allowed", "decreased", "rate"),
    [(100, 100, 102), (100, 60, 102), (100, 59, 102.05), (100, 20, 104), (0.5, 0.5, 2.5), (1000, 0, 1050)],
)
def test_equation_1(allowed: float, decreased: float, rate: float) -> None:
    assert increased(Rates(allowed, decreased), PAPER) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("allowed", "decreased", "rate"),
    [
        (100, 100, 50),
        (100, 80, 85),
        (100, 0.0, 50),
        (100, 40, 55),
        (100, 33, 50),
        # The last decrease may lie above, when another limit has bound meanwhile: no cut raises the rate.
        (100, 120, 50),
    ],
)
def test_equations_2_and_3(allowed: float, decreased: float, rate: float) -> None:
    assert factor_cut(Rates(allowed, decreased), Uca(1, 0.5), PAPER) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("uca", "then", "rate"),
    [
        # So much as comes through: 0.8 of what was published then.
        (Uca(1, 0.8), 100.0, 80.0),
        (Uca(1, 0.5), 80.0, 40.0),
        # And less, if a queue must drain: a tenth of it in 2 s if it lags by 200 ms.
        (Uca(1, 0.8, inf, 200), 100.0, 72.0),
        # Nothing is cut to less than a quarter, nor left nearly as it was.
        (Uca(1, 0.1), 100.0, 25.0),
        (Uca(1, 0.8, inf, 60_000), 100.0, 25.0),
        (Uca(1, 0.99), 100.0, 97.0),
        (Uca(1, 0.9), 500.0, 97.0),
        # Where nobody knows what was published, it was what is allowed.
        (Uca(1, 0.8), 0.0, 80.0),
        # Recovering: towards twice as fast as time.
        (Uca(1, inf, 1.5), 100.0, 75.0),
        (Uca(1, inf, 0.1), 100.0, 25.0),
        # Both: the slower counts.
        (Uca(1, 0.8, 1.0), 100.0, 50.0),
        (Uca(1, 0.4, 1.5), 100.0, 40.0),
    ],
)
def test_a_cut_by_the_horizon_rate(uca: Uca, then: float, rate: float) -> None:
    assert horizon_cut(Rates(100.0, 100.0, then), uca, SWIFT) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("allowed", "uca", "rate"),
    [
        (100.0, Uca(1, inf, 0.1), 25.0),
        (30.0, Uca(1, inf, 0.1), 12.5),
        (12.5, Uca(1, inf, 0.1), 12.5),
        (5.0, Uca(1, inf, 0.1), 5.0),
        (30.0, Uca(1, 0.2, inf, 100), 12.5),
        (30.0, Uca(1, 0.2, inf, SWIFT.lag_ms_max), 12.5),
        # Those that lag by too much while another recovers are not made to wait for it.
        (30.0, Uca(1, 0.2, inf, SWIFT.lag_ms_max + 1), 7.5),
    ],
)
def test_a_recovery_spares_some_of_the_rate(allowed: float, uca: Uca, rate: float) -> None:
    assert horizon_cut(Rates(allowed, allowed, 30.0, spared=12.5), uca, SWIFT) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("allowed", "uca", "rate"),
    [
        (100.0, Uca(1, inf, 0.1), 50.0),
        (30.0, Uca(1, inf, 0.1), 20.0),
        (20.0, Uca(1, inf, 0.1), 20.0),
        (10.0, Uca(1, inf, 0.1), 10.0),
        (30.0, Uca(1, 0.2, inf, PAPER.lag_ms_max), 20.0),
        (30.0, Uca(1, 0.2, inf, PAPER.lag_ms_max + 1), 15.0),
    ],
)
def test_a_recovery_spares_some_of_the_rate_also_from_a_cut_by_factor(allowed: float, uca: Uca, rate: float) -> None:
    assert factor_cut(Rates(allowed, allowed, spared=20.0), uca, PAPER) == pytest.approx(rate)


RATE = st.floats(0.5, 1e5)


@given(RATE, RATE)
def test_an_increase_is_one(allowed: float, decreased: float) -> None:
    assert increased(Rates(allowed, decreased), PAPER) >= allowed + PAPER.increase_min_msg_s


@given(RATE, st.floats(0, 3))
def test_a_cut_is_one_and_bounded(allowed: float, share: float) -> None:
    rate = factor_cut(Rates(allowed, share * allowed), Uca(1, 0.5), PAPER)
    assert 0.5 * allowed <= rate <= allowed
    assert rate < allowed or 0 < allowed - share * allowed < 1e-6 * allowed


@given(RATE, st.floats(0, 1e5), st.floats(0, 5), st.floats(0, 5), st.integers(0, 10**6))
def test_a_cut_by_the_horizon_rate_is_one_and_bounded(
    allowed: float, then: float, nonrec: float, rec: float, lag_ms: int
) -> None:
    for uca in (Uca(1, nonrec, inf, lag_ms), Uca(1, inf, rec, lag_ms), Uca(1, nonrec, rec, lag_ms)):
        assert 0.25 * allowed <= horizon_cut(Rates(allowed, allowed, then), uca, SWIFT) <= 0.97 * allowed
