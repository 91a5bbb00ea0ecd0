from __future__ import annotations

from penstock.model.tick import TickRange
from penstock.streams import NackBook


def pairs(ranges: list[TickRange]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in ranges]


def test_the_same_ticks_are_asked_for_once_for_many() -> None:
    book = NackBook()
    assert pairs(book.ask("sb1", 0, 9, now_ms=0)) == [(0, 9)]
    assert pairs(book.ask("sb2", 5, 14, now_ms=10)) == [(10, 14)]
    assert pairs(book.ask("sb1", 0, 14, now_ms=20)) == []


def test_after_a_second_they_are_asked_for_again() -> None:
    book = NackBook(forward_every_ms=1_000)
    book.ask("sb1", 0, 9, now_ms=0)
    assert pairs(book.ask("sb1", 0, 9, now_ms=999)) == []
    assert pairs(book.ask("sb1", 0, 9, now_ms=1_000)) == [(0, 9)]


def test_answers_go_to_those_who_asked_and_only_once() -> None:
    book = NackBook()
    book.ask("sb1", 0, 9, now_ms=0)
    book.ask("sb2", 5, 14, now_ms=0)
    answered = book.answered(4, 6)
    assert {child: pairs(parts) for child, parts in answered.items()} == {"sb1": [(4, 6)], "sb2": [(5, 6)]}
    assert book.answered(4, 6) == {}


def test_what_was_answered_can_be_asked_for_anew_at_once() -> None:
    book = NackBook()
    book.ask("sb1", 0, 9, now_ms=0)
    book.answered(0, 9)
    assert pairs(book.ask("sb2", 0, 9, now_ms=1)) == [(0, 9)]


def test_interest_that_nobody_renews_is_forgotten() -> None:
    book = NackBook(forget_after_ms=5_000)
    book.ask("sb1", 0, 9, now_ms=0)
    book.ask("sb2", 20, 29, now_ms=5_000)
    assert book.answered(0, 9) == {}


def test_a_child_that_leaves_gets_nothing() -> None:
    book = NackBook()
    book.ask("sb1", 0, 9, now_ms=0)
    book.leave("sb1")
    assert book.answered(0, 9) == {}


def test_a_child_cannot_fill_the_book() -> None:
    book = NackBook(ranges_max=3)
    for tick in range(0, 20, 2):
        book.ask("sb1", tick, tick, now_ms=0)
    assert book.refused == 7
    assert pairs(book.ask("sb2", 0, 0, now_ms=1)) == []


def test_a_child_waits_until_it_has_all_it_asked_for() -> None:
    book = NackBook()
    assert not book.waiting("sb1")
    book.ask("sb1", 0, 9, now_ms=0)
    assert book.waiting("sb1")
    assert not book.waiting("sb2")
    book.answered(0, 4)
    assert book.waiting("sb1")
    book.answered(5, 20)
    assert not book.waiting("sb1")
    book.ask("sb1", 0, 9, now_ms=0)
    book.leave("sb1")
    assert not book.waiting("sb1")


def test_ranges_asked_for_at_one_time_are_all_remembered() -> None:
    book = NackBook(forward_every_ms=1_000)
    assert pairs(book.ask("sb1", 0, 9, now_ms=5)) == [(0, 9)]
    assert pairs(book.ask("sb1", 20, 29, now_ms=5)) == [(20, 29)]
    assert pairs(book.ask("sb2", 5, 24, now_ms=6)) == [(10, 19)]
    assert pairs(book.ask("sb2", 0, 29, now_ms=7)) == []
    assert pairs(book.ask("sb2", 0, 29, now_ms=1_005)) == [(0, 9), (20, 29)]
