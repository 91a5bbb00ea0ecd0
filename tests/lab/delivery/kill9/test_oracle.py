"""The oracle of the live proof: chains agree if and only if sequences do, and each kind of wrong has its name."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.delivery.kill9.oracle import DeliveryVerdict, HashChain, Ledger, Reading, judge

RIGHT = DeliveryVerdict(0, 0, 0, 0, None)


def read(numbers: Sequence[int]) -> Reading:
    reading = Reading()
    for number in numbers:
        reading.add(number)
    return reading


def test_what_was_acknowledged_and_fits_is_right() -> None:
    assert judge([], 0, read([])) == RIGHT
    assert judge([2, 4, 7], 7, read([2, 4, 7])) == RIGHT


def test_what_was_not_acknowledged_may_be_there_or_not() -> None:
    assert judge([2, 4, 7, 9], 4, read([2, 4])) == RIGHT
    assert judge([2, 4, 7, 9], 4, read([2, 4, 9])) == RIGHT
    assert judge([2, 4, 7, 9], 4, read([2, 4, 7, 9])) == RIGHT


def test_what_was_not_acknowledged_must_be_in_its_place_and_once() -> None:
    assert judge([2, 4, 7], 4, read([2, 7, 4])) == DeliveryVerdict(0, 0, 1, 0, 1)
    assert judge([2, 4, 7], 4, read([2, 4, 7, 7])) == DeliveryVerdict(0, 1, 0, 0, 3)


def test_a_loss_a_repetition_a_stray_and_a_change_of_order_are_told_apart() -> None:
    assert judge([1, 2, 3], 3, read([1, 3])) == DeliveryVerdict(1, 0, 0, 0, 1)
    assert judge([1, 2, 3], 3, read([1, 2])) == DeliveryVerdict(1, 0, 0, 0, 2)
    assert judge([1, 2, 3], 3, read([1, 2, 1, 3])) == DeliveryVerdict(0, 1, 0, 0, 2)
    assert judge([1, 3], 3, read([1, 2, 3])) == DeliveryVerdict(0, 0, 0, 1, 1)
    assert judge([1, 2, 3], 3, read([3, 1, 2])) == DeliveryVerdict(0, 0, 2, 0, 0)


@given(st.lists(st.integers(0, 5), max_size=6), st.lists(st.integers(0, 5), max_size=6))
def test_chains_agree_if_and_only_if_sequences_do(one: list[int], other: list[int]) -> None:
    assert (HashChain(one).digest == HashChain(other).digest) == (one == other)


@given(st.sets(st.integers(1, 12)).map(sorted), st.integers(0, 12), st.lists(st.integers(1, 12), max_size=14))
def test_a_verdict_is_clean_if_and_only_if_the_sequence_is_one_of_the_right_ones(
    fitting: list[int], acked: int, got: list[int]
) -> None:
    is_right = got == sorted(set(got)) and {each for each in fitting if each <= acked} <= set(got) <= set(fitting)
    verdict = judge(fitting, acked, read(got))
    assert (verdict == RIGHT) == is_right
    wrong = verdict.lost + verdict.duplicated + verdict.reordered + verdict.wrongly_filtered
    assert (verdict.first_difference is None) == (wrong == 0)


def test_the_ledger_numbers_messages_and_knows_whom_they_fit() -> None:
    ledger = Ledger(2, ["volume > 10", "publisher = 1", "missing = 1"])
    first = ledger.issue(0, {"volume": 11}, now_s=1.0)
    ledger.issue(0, {"volume": 9}, now_s=2.0)
    third = ledger.issue(1, {"volume": 12}, now_s=3.0)
    assert first == {"volume": 11, "publisher": 0, "number": 1}
    assert ledger.published == 3
    assert [[ledger.fitting(subscriber, publisher) for publisher in (0, 1)] for subscriber in (0, 1, 2)] == [
        [[1], [1]],
        [[], [1]],
        [[], []],
    ]
    assert ledger.find(third) == (1, 1, 3.0)


def test_the_ledger_does_not_know_what_nobody_published() -> None:
    ledger = Ledger(1, [])
    message = ledger.issue(0, {"volume": 11}, now_s=1.0)
    for change in ({"volume": 12}, {"number": 2}, {"number": 0}, {"publisher": 1}, {"publisher": "0"}, {"more": 1}):
        assert ledger.find({**message, **change}) is None
    assert ledger.find({}) is None
