"""The match algorithm: least traffic first, until delays are balanced or the overload is over."""

from __future__ import annotations

import pytest

from balancing.offload.test_instance import BYTES_S, IDLE, work_of
from penstock.balancing.estimators import Figures
from penstock.balancing.metrics import Metric
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.match import offload_match

HOST = Figures(10.0, 100, 12_000.0, BYTES_S, 0.0, 0.0002)


def uncovered(work: object) -> Coverage:
    return Coverage(work.profile.interests, [])  # type: ignore[attr-defined]


def test_those_of_least_traffic_move_first() -> None:
    work = work_of([20, 20, 60], ["0000000111", "0000000000", "0000000001"], HOST, IDLE)
    offload_match(work, uncovered(work))
    # Half of the hundred balances a partner without any; the last ones move in part.
    assert list(work.moves.items()) == [(1, 20), (2, 30)]
    assert work.difference(Metric.DELAY) == pytest.approx(0.0, abs=0.005)


def test_of_equal_traffic_those_move_first_that_add_less_at_the_partner() -> None:
    work = work_of([50, 50], ["0000000010", "0000000001"], HOST, IDLE, css="0000000001")
    offload_match(work, uncovered(work))
    assert next(iter(work.moves)) == 1


def test_relief_from_overload_goes_on_beyond_balance() -> None:
    # Ten messages a second of 40 ms each are 0.4 here; CPU says 1.0.
    busy = Figures(10.0, 100, 0.0, BYTES_S, 0.0, 0.0004, 1.0, 0.0)
    slower = Figures(0.0, 60, 0.0, BYTES_S, 0.0, 0.0004)
    work = work_of([1] * 100, ["0000000000"] * 99 + ["1111111111"], busy, slower)
    offload_match(work, uncovered(work))
    assert work.moved == 20, "balanced: eighty at each"
    work = work_of([1] * 100, ["0000000000"] * 99 + ["1111111111"], busy, slower)
    work.is_overload = True
    offload_match(work, uncovered(work))
    assert work.moved == 25, "below the lower threshold: 0.1 less of CPU"
    assert work.host.cpu == pytest.approx(0.9)


def test_relief_is_free_to_drive_input_apart_only_until_the_overload_is_over() -> None:
    # By matching delays forty would have to move; but the partner gets more messages.
    busy = Figures(24.0, 100, 0.0, BYTES_S, 0.0, 0.0004)
    partner = Figures(30.0, 20, 0.0, BYTES_S, 0.0, 0.0004)
    work = work_of([1] * 100, ["0000000000"] * 100, busy, partner)
    work.is_overload = True
    assert work.host.input == pytest.approx(0.96)
    offload_match(work, uncovered(work))
    assert work.moved == 35
    assert -0.075 <= work.difference(Metric.INPUT) < 0, "by half of the trigger, and no more"


def test_a_step_does_not_turn_the_order_of_another_metric() -> None:
    # By 0.12 above in input, and by a sixth of a second in delay.
    above = Figures(20.0, 100, 0.0, BYTES_S, 0.0, 0.0002)
    below = Figures(28.0, 50, 0.0, BYTES_S, 0.0, 0.0002)
    work = work_of([1] * 100, ["0000000000"] * 100, above, below)
    assert work.difference(Metric.INPUT) == pytest.approx(0.12)
    offload_match(work, uncovered(work))
    assert work.moves
    assert work.difference(Metric.INPUT) >= -0.05, "not as far below as it was above"


def test_nothing_moves_without_anybody_to_move() -> None:
    work = work_of([0], ["1111111111"], HOST, IDLE)
    offload_match(work, uncovered(work))
    assert not work.moves
