"""What unfinished frames take together is bounded, and those that were quiet longest go first."""

from __future__ import annotations

from penstock.live.unfinished import Unfinished

KIB = 1024


class Holder:
    """A connection."""

    def __init__(self) -> None:
        self.reason = ""

    def give_up(self, reason: str) -> None:
        self.reason = reason


def test_who_was_quiet_longest_goes_first() -> None:
    unfinished = Unfinished(300 * KIB)
    first, second, third = Holder(), Holder(), Holder()
    for each in (first, second):
        unfinished.note(each, 100 * KIB)
    unfinished.note(first, 140 * KIB)
    unfinished.note(third, 150 * KIB)
    assert "307,200 bytes" in second.reason
    assert first.reason == third.reason == ""


def test_a_frame_that_is_complete_counts_no_more() -> None:
    unfinished = Unfinished(300 * KIB)
    first, second = Holder(), Holder()
    unfinished.note(first, 200 * KIB)
    unfinished.note(first, 0)
    unfinished.note(second, 200 * KIB)
    unfinished.forget(second)
    unfinished.note(first, 250 * KIB)
    assert first.reason == second.reason == ""


def test_little_does_not_count_and_one_that_is_too_large_goes_itself() -> None:
    unfinished = Unfinished(100 * KIB)
    many = [Holder() for _ in range(10)]
    for each in many:
        unfinished.note(each, 60 * KIB)
    assert not any(each.reason for each in many)
    unfinished.note(many[0], 101 * KIB)
    assert many[0].reason
