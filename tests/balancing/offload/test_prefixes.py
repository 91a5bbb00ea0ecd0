"""Moving in a fixed order: all prefixes at once are what single steps would be, for every metric."""

from __future__ import annotations

import numpy as np
import pytest

from balancing.offload.test_instance import BYTES_S, IDLE, work_of
from penstock.balancing.estimators import Figures
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.prefixes import move_in_order
from penstock.balancing.settings import BalancingSettings
from penstock.model.metrics import DELAY, INPUT, OUTPUT, Metric

VECTORS = ["0000000000", "0000000001", "0000000011", "0000000111", "1110000000"]
HOST = Figures(10.0, 100, 12_000.0, BYTES_S, 0.0, 0.0002)


def uncovered(work: object) -> Coverage:
    return Coverage(work.profile.interests, [])  # type: ignore[attr-defined]


@pytest.mark.parametrize("metric", [DELAY, INPUT])
@pytest.mark.parametrize("candidates", [[0, 1, 2, 3, 4], [0, 1, 3], []])
def test_the_loads_of_all_prefixes_are_those_of_single_steps(metric: Metric, candidates: list[int]) -> None:
    work, single = (work_of([3, 4, 5, 6, 7], VECTORS, HOST, IDLE, css="0000000010") for _ in range(2))
    move_in_order(work, uncovered(work), metric, np.array(candidates, np.int64))
    assert set(work.moves) <= set(candidates)
    assert bool(work.moves) is bool(candidates)
    for place, count in work.moves.items():
        single.take(place, count, 0.0, is_covered=False)
    assert work.host.rate_msg_s == pytest.approx(single.host.rate_msg_s)
    assert work.partner.rate_msg_s == pytest.approx(single.partner.rate_msg_s)
    assert work.host.bytes_out_s == pytest.approx(single.host.bytes_out_s)
    assert work.host.input == pytest.approx(single.host.input)
    assert work.css.tolist() == single.css.tolist()


def test_what_those_want_who_are_no_candidates_still_comes_in() -> None:
    # All of what the first two want is wanted by the last one, too, who does not move.
    work = work_of([3, 3, 3], ["0000000111", "0000111000", "0000111111"], HOST, IDLE)
    move_in_order(work, uncovered(work), DELAY, np.array([0, 1]))
    assert work.moves == {0: 3, 1: 3}
    assert work.host.rate_msg_s == 10.0


def test_it_goes_on_from_what_has_been_chosen_before() -> None:
    work = work_of([20, 20, 60], ["0000000111", "0000000000", "0000000001"], HOST, IDLE)
    work.take(1, 20, 0.1, is_covered=False)
    move_in_order(work, uncovered(work), DELAY, np.arange(3))
    assert list(work.moves.items()) == [(1, 20), (2, 30)]


def test_all_sessions_together_are_bounded() -> None:
    work = work_of([20, 20, 60], ["0000000111", "0000000000", "0000000001"], HOST, IDLE)
    work.settings = BalancingSettings(moves_max=25)
    work.take(1, 10, 0.1, is_covered=False)
    move_in_order(work, uncovered(work), DELAY, np.arange(3))
    assert work.moved == 25


def test_a_step_beyond_the_guard_is_not_taken() -> None:
    # Twenty subscribers of a tenth of the messages each: 2 % of the partner's output, and no more of its delay.
    weak = Figures(0.0, 0, 0.0, 10_000.0, 0.0, 0.0002)
    host = Figures(10.0, 100, 10_000.0, BYTES_S, 0.0, 0.0002)
    work = work_of([100], ["0000000001"], host, weak)
    move_in_order(work, uncovered(work), DELAY, np.array([0]))
    assert 0 < work.moved < 50
    assert work.difference(OUTPUT) >= -0.0751
