"""The output algorithm: what the partner covers first, by type and traffic; then the rest while input allows."""

from __future__ import annotations

from dataclasses import replace

from balancing.offload.test_instance import work_of
from penstock.balancing.estimators import Figures
from penstock.balancing.metrics import Metric
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Interest, Offload
from penstock.balancing.offload.output import offload_output
from penstock.selectors.selector import Selector

BYTES_S = 10_000.0
TEXTS = ("a = 1", "a = 2", "a = 3")


def work_with(counts: list[int], vectors: list[str], *, css: str = "", slope: float = 0.0001) -> Offload:
    """A broker that sends what its subscribers take, and a partner that sends nothing."""
    output = sum(count * vector.count("1") * 100.0 for count, vector in zip(counts, vectors, strict=True))
    host = Figures(10.0, 100, output, BYTES_S, 0.0, slope)
    return work_of(counts, vectors, host, Figures(10.0, 100, 0.0, BYTES_S, 0.0, 0.0001), css=css)


def coverage_of(partner: str, *texts: str) -> Coverage:
    covering = Selector.parse(partner).conjunctions if partner else ()
    return Coverage([Interest(text, (1,), selectors=(Selector.parse(text),)) for text in texts], covering)


def test_what_reduces_our_input_goes_before_what_does_not() -> None:
    # The second has more traffic, but others want all of it, too.
    work = work_with([2, 2, 2], ["0000000011", "1111111100", "1111111100"], css="1111111111")
    offload_output(work, coverage_of("a > 0", *TEXTS))
    assert next(iter(work.moves)) == 0
    assert all(card.is_covered for card in work.cards)
    assert work.cards[0].rate_reduced_msg_s == 2.0


def test_of_one_type_the_highest_traffic_goes_first() -> None:
    work = work_with([4, 2, 4], ["0000000001", "0000001110", "0000110000"], css="1111111111")
    offload_output(work, coverage_of("a > 0", *TEXTS))
    assert next(iter(work.moves)) == 1


def test_what_the_partner_does_not_cover_stays_if_it_would_call_for_the_input_algorithm() -> None:
    work = work_with([3, 5], ["0000000111", "1111110000"], css="0000000111")
    offload_output(work, coverage_of("a = 1", *TEXTS[:2]))
    assert set(work.moves) == {0}, "one of the second would drive input apart by 0.06 and more"
    assert work.difference(Metric.OUTPUT) > 0.1


def test_what_the_partner_does_not_cover_follows_while_our_input_is_higher() -> None:
    work = work_with([3, 9], ["0000000111", "0001110000"], css="0000000111", slope=0.0008)
    offload_output(work, coverage_of("a = 1", *TEXTS[:2]))
    assert list(work.moves) == [0, 1]
    assert [card.is_covered for card in work.cards] == [True, False]


def test_output_overload_is_relieved_whatever_input_says() -> None:
    work = work_with([32], ["0011111100"], slope=0.0001)
    work.host = replace(work.host, bytes_out_s=9_600.0)
    work.partner = replace(work.partner, delay_slope_s=0.0002)
    offload_output(work, coverage_of("", TEXTS[0]))
    assert not work.moves, "six messages a second more for the partner are more than the guard allows"
    work.is_overload = True
    offload_output(work, coverage_of("", TEXTS[0]))
    assert work.host.output <= 0.9


def test_output_is_balanced_where_matching_takes_no_time() -> None:
    work = work_with([32], ["0001110000"], slope=1e-9)
    work.partner = replace(work.partner, delay_slope_s=1e-9)
    assert abs(work.difference(Metric.INPUT)) < work.settings.balance_threshold, "input is balanced, and always will be"
    offload_output(work, coverage_of("", TEXTS[0]))
    assert abs(work.difference(Metric.OUTPUT)) <= 0.03, "a subscriber is 0.03"
    assert abs(work.difference(Metric.INPUT)) < work.settings.balance_threshold


def test_a_move_that_covers_more_leads_back_to_the_first_phase() -> None:
    work = work_with([2, 7], ["0011111111", "0000000001"], slope=0.0008)
    offload_output(work, coverage_of("", "a > 0", "a > 5"))
    found = [(card.interest, card.is_covered) for card in work.cards]
    assert ("i0", False) in found
    assert found[found.index(("i0", False)) + 1 :] == [("i1", True)]
