"""The input algorithm: members of the covering set, whichever brings the difference closest to zero; then others."""

from __future__ import annotations

import pytest

from balancing.offload.test_instance import work_of
from penstock.balancing.estimators import Figures
from penstock.balancing.metrics import Metric
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.input import offload_input
from penstock.balancing.offload.instance import Interest, Offload
from penstock.selectors.selector import Selector

HOST = Figures(10.0, 10, 100.0, 10_000.0, 0.0, 0.008)
PARTNER = Figures(0.0, 5, 0.0, 100_000.0, 0.0, 0.002)


def coverage_of(*texts: str) -> Coverage:
    return Coverage([Interest(text, (1,), selectors=(Selector.parse(text),)) for text in texts], [])


def test_members_of_the_covering_set_move_first() -> None:
    work = work_of([1, 1], ["0000000111", "0000000001"], HOST, PARTNER)
    coverage = coverage_of("a = 1", "a = 1 AND b > 5")
    offload_input(work, coverage)
    assert next(iter(work.moves)) == 0
    assert work.difference(Metric.INPUT) < 0.8


def test_what_a_member_covered_follows_it() -> None:
    work = work_of([1, 1, 1], ["1111111111", "0000011111", "0000000001"], HOST, PARTNER)
    coverage = coverage_of("a = 1", "a = 1 AND b > 5", "a = 1 AND b > 9")
    offload_input(work, coverage)
    assert list(work.moves) == sorted(work.moves), "most general first: the others are no members before"


def test_one_that_was_chosen_is_not_chosen_again() -> None:
    host = Figures(10.0, 10, 10_000.0, 100_000.0, 0.0, 0.008)
    work = work_of([10], ["1111111111"], host, PARTNER)
    offload_input(work, coverage_of("a = 1"))
    assert [card.subscribers for card in work.cards] == [7], "0.24 of 0.24: as near as whole subscribers allow"


def test_nothing_moves_where_nothing_improves() -> None:
    even = Figures(10.0, 10, 100.0, 10_000.0, 0.0, 0.008)
    work = work_of([1], ["1111111111"], HOST, even)
    offload_input(work, coverage_of("a = 1"))
    assert not work.moves


def everything(count: int, others: int, *, slope: float = 0.0004) -> tuple[Offload, Coverage]:
    """Both brokers get everything, as somebody at each of them wants it; the partner has the higher output."""
    texts = ["a > 0", *(f"a = {number}" for number in range(1, others + 1))]
    host = Figures(10.0, 100, 100.0, 10_000.0, 0.0, slope)
    partner = Figures(10.0, 60, 1_200.0, 10_000.0, 0.0, slope)
    work = work_of([count, *([1] * others)], ["1111111111", *(["0000000000"] * others)], host, partner, css="1" * 10)
    interests = [Interest(text, (1,), selectors=(Selector.parse(text),)) for text in texts]
    return work, Coverage(interests, Selector.parse("a > 0").conjunctions)


def test_where_members_would_drive_outputs_apart_those_of_no_traffic_move_instead() -> None:
    work, coverage = everything(2, 30)
    assert work.difference(Metric.INPUT) == pytest.approx(0.16)
    assert work.difference(Metric.OUTPUT) == pytest.approx(-0.11), "the partner is above already"
    offload_input(work, coverage)
    assert 0 not in work.moves
    assert work.moved == 20
    assert work.difference(Metric.INPUT) == pytest.approx(0.0)
    assert work.difference(Metric.OUTPUT) == pytest.approx(-0.11)


def test_those_that_would_add_to_the_input_of_the_partner_stay() -> None:
    host = Figures(10.0, 100, 100.0, 10_000.0, 0.0, 0.0004)
    partner = Figures(9.0, 60, 1_200.0, 10_000.0, 0.0, 0.0004)
    vectors = ["1111111111", "0000000001", "0000000010"]
    work = work_of([1, 10, 10], vectors, host, partner, css="1111111110")
    coverage = coverage_of("a > 0", "a = 1", "a = 2")
    offload_input(work, coverage)
    assert 1 not in work.moves
