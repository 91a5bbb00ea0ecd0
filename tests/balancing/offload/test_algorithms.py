"""The offload algorithms: who moves to balance input, matching delay or output, in which order, and where it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from balancing.offload.test_instance import BYTES_S, IDLE, work_of
from penstock.balancing.estimators import Figures
from penstock.balancing.offload.algorithms import offload_input, offload_match, offload_output
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Interest, Offload
from penstock.model.metrics import DELAY, INPUT, OUTPUT
from penstock.selectors.selector import Selector

INPUT_HOST = Figures(10.0, 10, 100.0, 10_000.0, 0.0, 0.008)
INPUT_PARTNER = Figures(0.0, 5, 0.0, 100_000.0, 0.0, 0.002)
DELAY_HOST = Figures(10.0, 100, 12_000.0, BYTES_S, 0.0, 0.0002)
OUTPUT_BYTES_S = 10_000.0
OUTPUT_TEXTS = ("a = 1", "a = 2", "a = 3")


# --- input


def coverage_of(*texts: str) -> Coverage:
    return Coverage([Interest(text, (1,), selectors=(Selector.parse(text),)) for text in texts], [])


def test_members_of_the_covering_set_move_first() -> None:
    work = work_of([1, 1], ["0000000111", "0000000001"], INPUT_HOST, INPUT_PARTNER)
    coverage = coverage_of("a = 1", "a = 1 AND b > 5")
    offload_input(work, coverage)
    assert next(iter(work.moves)) == 0
    assert work.difference(INPUT) < 0.8


def test_what_a_member_covered_follows_it() -> None:
    work = work_of([1, 1, 1], ["1111111111", "0000011111", "0000000001"], INPUT_HOST, INPUT_PARTNER)
    coverage = coverage_of("a = 1", "a = 1 AND b > 5", "a = 1 AND b > 9")
    offload_input(work, coverage)
    assert list(work.moves) == sorted(work.moves), "most general first: the others are no members before"


def test_one_that_was_chosen_is_not_chosen_again() -> None:
    host = Figures(10.0, 10, 10_000.0, 100_000.0, 0.0, 0.008)
    work = work_of([10], ["1111111111"], host, INPUT_PARTNER)
    offload_input(work, coverage_of("a = 1"))
    assert [card.subscribers for card in work.cards] == [7], "0.24 of 0.24: as near as whole subscribers allow"


def test_nothing_moves_where_nothing_improves() -> None:
    even = Figures(10.0, 10, 100.0, 10_000.0, 0.0, 0.008)
    work = work_of([1], ["1111111111"], INPUT_HOST, even)
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
    assert work.difference(INPUT) == pytest.approx(0.16)
    assert work.difference(OUTPUT) == pytest.approx(-0.11), "the partner is above already"
    offload_input(work, coverage)
    assert 0 not in work.moves
    assert work.moved == 20
    assert work.difference(INPUT) == pytest.approx(0.0)
    assert work.difference(OUTPUT) == pytest.approx(-0.11)


def test_those_that_would_add_to_the_input_of_the_partner_stay() -> None:
    host = Figures(10.0, 100, 100.0, 10_000.0, 0.0, 0.0004)
    partner = Figures(9.0, 60, 1_200.0, 10_000.0, 0.0, 0.0004)
    vectors = ["1111111111", "0000000001", "0000000010"]
    work = work_of([1, 10, 10], vectors, host, partner, css="1111111110")
    coverage = coverage_of("a > 0", "a = 1", "a = 2")
    offload_input(work, coverage)
    assert 1 not in work.moves


# --- matching delay


def uncovered(work: object) -> Coverage:
    return Coverage(work.profile.interests, [])  # type: ignore[attr-defined]


def test_those_of_least_traffic_move_first() -> None:
    work = work_of([20, 20, 60], ["0000000111", "0000000000", "0000000001"], DELAY_HOST, IDLE)
    offload_match(work, uncovered(work))
    # Half of the hundred balances a partner without any; the last ones move in part.
    assert list(work.moves.items()) == [(1, 20), (2, 30)]
    assert work.difference(DELAY) == pytest.approx(0.0, abs=0.005)


def test_of_equal_traffic_those_move_first_that_add_less_at_the_partner() -> None:
    work = work_of([50, 50], ["0000000010", "0000000001"], DELAY_HOST, IDLE, css="0000000001")
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
    assert -0.075 <= work.difference(INPUT) < 0, "by half of the trigger, and no more"


def test_a_step_does_not_turn_the_order_of_another_metric() -> None:
    # By 0.12 above in input, and by a sixth of a second in delay.
    above = Figures(20.0, 100, 0.0, BYTES_S, 0.0, 0.0002)
    below = Figures(28.0, 50, 0.0, BYTES_S, 0.0, 0.0002)
    work = work_of([1] * 100, ["0000000000"] * 100, above, below)
    assert work.difference(INPUT) == pytest.approx(0.12)
    offload_match(work, uncovered(work))
    assert work.moves
    assert work.difference(INPUT) >= -0.05, "not as far below as it was above"


def test_nothing_moves_without_anybody_to_move() -> None:
    work = work_of([0], ["1111111111"], DELAY_HOST, IDLE)
    offload_match(work, uncovered(work))
    assert not work.moves


# --- output


def work_with(counts: list[int], vectors: list[str], *, css: str = "", slope: float = 0.0001) -> Offload:
    """A broker that sends what its subscribers take, and a partner that sends nothing."""
    output = sum(count * vector.count("1") * 100.0 for count, vector in zip(counts, vectors, strict=True))
    host = Figures(10.0, 100, output, OUTPUT_BYTES_S, 0.0, slope)
    return work_of(counts, vectors, host, Figures(10.0, 100, 0.0, OUTPUT_BYTES_S, 0.0, 0.0001), css=css)


def covered_by(partner: str, *texts: str) -> Coverage:
    covering = Selector.parse(partner).conjunctions if partner else ()
    return Coverage([Interest(text, (1,), selectors=(Selector.parse(text),)) for text in texts], covering)


def test_what_reduces_our_input_goes_before_what_does_not() -> None:
    # The second has more traffic, but others want all of it, too.
    work = work_with([2, 2, 2], ["0000000011", "1111111100", "1111111100"], css="1111111111")
    offload_output(work, covered_by("a > 0", *OUTPUT_TEXTS))
    assert next(iter(work.moves)) == 0
    assert all(card.is_covered for card in work.cards)
    assert work.cards[0].rate_reduced_msg_s == 2.0


def test_of_one_type_the_highest_traffic_goes_first() -> None:
    work = work_with([4, 2, 4], ["0000000001", "0000001110", "0000110000"], css="1111111111")
    offload_output(work, covered_by("a > 0", *OUTPUT_TEXTS))
    assert next(iter(work.moves)) == 1


def test_what_the_partner_does_not_cover_stays_if_it_would_call_for_the_input_algorithm() -> None:
    work = work_with([3, 5], ["0000000111", "1111110000"], css="0000000111")
    offload_output(work, covered_by("a = 1", *OUTPUT_TEXTS[:2]))
    assert set(work.moves) == {0}, "one of the second would drive input apart by 0.06 and more"
    assert work.difference(OUTPUT) > 0.1


def test_what_the_partner_does_not_cover_follows_while_our_input_is_higher() -> None:
    work = work_with([3, 9], ["0000000111", "0001110000"], css="0000000111", slope=0.0008)
    offload_output(work, covered_by("a = 1", *OUTPUT_TEXTS[:2]))
    assert list(work.moves) == [0, 1]
    assert [card.is_covered for card in work.cards] == [True, False]


def test_output_overload_is_relieved_whatever_input_says() -> None:
    work = work_with([32], ["0011111100"], slope=0.0001)
    work.host = replace(work.host, bytes_out_s=9_600.0)
    work.partner = replace(work.partner, delay_slope_s=0.0002)
    offload_output(work, covered_by("", OUTPUT_TEXTS[0]))
    assert not work.moves, "six messages a second more for the partner are more than the guard allows"
    work.is_overload = True
    offload_output(work, covered_by("", OUTPUT_TEXTS[0]))
    assert work.host.output <= 0.9


def test_output_is_balanced_where_matching_takes_no_time() -> None:
    work = work_with([32], ["0001110000"], slope=1e-9)
    work.partner = replace(work.partner, delay_slope_s=1e-9)
    assert abs(work.difference(INPUT)) < work.settings.balance_threshold, "input is balanced, and always will be"
    offload_output(work, covered_by("", OUTPUT_TEXTS[0]))
    assert abs(work.difference(OUTPUT)) <= 0.03, "a subscriber is 0.03"
    assert abs(work.difference(INPUT)) < work.settings.balance_threshold


def test_a_move_that_covers_more_leads_back_to_the_first_phase() -> None:
    work = work_with([2, 7], ["0011111111", "0000000001"], slope=0.0008)
    offload_output(work, covered_by("", "a > 0", "a > 5"))
    found = [(card.interest, card.is_covered) for card in work.cards]
    assert ("i0", False) in found
    assert found[found.index(("i0", False)) + 1 :] == [("i1", True)]
