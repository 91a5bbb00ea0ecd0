"""What is due next: never later than the truth, and the truth before it is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.due import Due, Dues


class Part:
    """A part with a deadline, that counts how often it is asked."""

    def __init__(self, deadline_ms: int | None = None) -> None:
        self.deadline_ms = deadline_ms
        self.asked = 0
        self.due = Due(self.ask)

    def ask(self) -> int | None:
        self.asked += 1
        return self.deadline_ms


def test_everybody_is_asked_once_and_then_only_who_is_first() -> None:
    parts = [Part(30), Part(), Part(20), Part(40)]
    dues = Dues(part.due for part in parts)
    for _ in range(5):
        assert dues.next() == 20
    assert [part.asked for part in parts] == [1, 1, 6, 1]


def test_what_moves_away_is_found_out_and_what_comes_nearer_must_be_said() -> None:
    first, second = Part(10), Part(20)
    dues = Dues([first.due, second.due])
    assert dues.next() == 10
    first.deadline_ms = 50
    assert dues.next() == 20
    second.deadline_ms = None
    assert dues.next() == 50
    second.deadline_ms = 5
    second.due.by(5)
    assert dues.next() == 5


def test_a_part_that_does_not_know_when_is_asked() -> None:
    part = Part()
    dues = Dues([part.due])
    assert dues.next() is None
    part.deadline_ms = 7
    part.due.ask()
    assert dues.next() == 7


def test_a_part_that_would_be_woken_too_late_is_a_broken_invariant() -> None:
    part = Part(10)
    dues = Dues([part.due])
    dues.next()
    dues.check()
    part.deadline_ms = 9
    with pytest.raises(AssertionError, match="says 9, and 10 is known"):
        dues.check()


def test_the_bound_is_never_later_than_what_is_due_and_asks_nobody() -> None:
    first, second = Part(10), Part(20)
    dues = Dues([first.due, second.due])
    dues.next()
    assert dues.bound_ms == 10
    second.due.by(5)
    assert dues.bound_ms == 5
    second.due.by(7)
    assert dues.bound_ms == 5
    first.due.ask()
    assert dues.bound_ms == 0
    assert (first.asked, second.asked) == (2, 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 9)), max_size=40))
def test_it_is_what_asking_everybody_would_say(changes: list[tuple[int, int | None]]) -> None:
    parts = [Part() for _ in range(4)]
    dues = Dues(part.due for part in parts)
    for place, deadline_ms in changes:
        parts[place].deadline_ms = deadline_ms
        if deadline_ms is not None:
            parts[place].due.by(deadline_ms)
        truth = min((part.deadline_ms for part in parts if part.deadline_ms is not None), default=None)
        assert truth is None or dues.bound_ms <= truth
        assert dues.next() == truth
