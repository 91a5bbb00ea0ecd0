"""A pause is the longest time without a delivery that a blow can have caused, and nobody's wait is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.failover.pauses import Outcome, longest_gap
from penstock.lab.failover.servers import Holder

STEADY = [each / 10 for each in range(100)]


def outcome(*, counts_from_s: dict[str, float] | None = None) -> Outcome:
    return Outcome(
        kind="database",
        target="",
        struck_s=2.0,
        until_s=9.0,
        counts_from_s=counts_from_s or {},
        before={"orders": Holder("pb1", 3), "quotes": Holder("pb2", 7)},
        after={"orders": Holder("pb2", 4), "quotes": Holder("pb2", 9)},
    )


def without(times: list[float], begin_s: float, end_s: float) -> list[float]:
    return [each for each in times if not begin_s < each < end_s]


def test_a_gap_before_the_blow_or_after_the_next_one_is_none_of_its() -> None:
    assert longest_gap(without(STEADY, 1.0, 2.0), 2.0, 8.0) == pytest.approx(0.1)
    assert longest_gap(without(STEADY, 8.0, 9.0), 2.0, 8.0) == pytest.approx(0.1)


def test_a_gap_counts_from_the_last_delivery_before_the_blow() -> None:
    assert longest_gap(without(STEADY, 1.5, 4.0), 2.0, 8.0) == pytest.approx(2.5)


def test_a_gap_that_has_not_ended_when_the_next_blow_comes_counts_to_its_end() -> None:
    assert longest_gap(without(STEADY, 7.5, 9.5), 2.0, 8.0) == pytest.approx(2.0)


def test_what_others_needed_is_left_out_but_no_later_gap() -> None:
    times = without(without(STEADY, 2.0, 5.0), 6.0, 7.5)
    assert longest_gap(times, 2.0, 8.0, counts_from_s=4.6) == pytest.approx(1.5)
    assert longest_gap(times, 2.0, 8.0, counts_from_s=3.0) == pytest.approx(2.0)


@pytest.mark.parametrize("times", [[], [1.0], [9.0]])
def test_hardly_any_delivery_is_a_pause_too(times: list[float]) -> None:
    assert longest_gap(times, 2.0, 8.0) >= 6.0


@given(
    times=st.lists(st.integers(0, 60), min_size=2, unique=True).map(sorted),
    struck_s=st.integers(0, 60),
    length_s=st.integers(1, 30),
)
def test_it_is_the_longest_wait_that_somebody_sees_who_looks_at_any_time_between_the_blows(
    times: list[float], struck_s: int, length_s: int
) -> None:
    times = [-1.0, *times, 100.0]
    moments = [struck_s + place + 0.5 for place in range(length_s)]
    seen = [
        min(each for each in times if each > moment) - max(each for each in times if each < moment)
        for moment in moments
    ]
    assert longest_gap(times, struck_s, struck_s + length_s) == max(seen)


def test_the_longest_pause_of_both_hosts_and_all_pubends_counts() -> None:
    deliveries = {
        ("sb1", "orders"): STEADY,
        ("sb2", "orders"): without(STEADY, 2.0, 3.0),
        ("sb1", "quotes"): without(STEADY, 2.0, 5.0),
        ("sb2", "quotes"): STEADY,
    }
    assert outcome().pause_s(deliveries) == pytest.approx(3.0)
    waited = outcome(counts_from_s={"orders": 2.2, "quotes": 4.5})
    assert waited.pause_s(deliveries) == pytest.approx(0.8)
    assert waited.whole_s(deliveries) == pytest.approx(3.0)


def test_epochs_tell_how_often_pubends_were_taken_over() -> None:
    assert outcome().takeovers == 3
