from __future__ import annotations

from random import Random

import pytest

from penstock.model.errors import MisuseError
from penstock.model.tick import Tick, TickRange
from penstock.streams import NackSettings, NackWindow

STEADY = NackSettings(jitter_ms=1)


def gaps(*pairs: tuple[int, int]) -> list[TickRange]:
    return [TickRange(Tick(first), Tick(last)) for first, last in pairs]


def test_a_gap_is_asked_for_once_until_it_is_due_again() -> None:
    window = NackWindow(Random(1), STEADY)
    assert window.ask(gaps((5, 9)), now_ms=0) == gaps((5, 9))
    assert window.ask(gaps((5, 9)), now_ms=500) == []
    assert window.next_deadline() == 1_000
    assert window.ask(gaps((5, 9)), now_ms=1_000) == gaps((5, 9))


def test_only_what_is_still_unknown_is_asked_for_again() -> None:
    window = NackWindow(Random(1), STEADY)
    window.ask(gaps((0, 9)), now_ms=0)
    assert window.ask(gaps((0, 2), (7, 9)), now_ms=1_000) == gaps((0, 2), (7, 9))


def test_a_wider_window_asks_for_what_is_new_in_it() -> None:
    window = NackWindow(Random(1), STEADY)
    window.ask(gaps((0, 9)), now_ms=0)
    assert window.ask(gaps((0, 19)), now_ms=10) == gaps((10, 19))


def test_the_time_to_an_answer_is_learnt_from_what_was_asked_for_once() -> None:
    window = NackWindow(Random(1), STEADY)
    window.ask(gaps((0, 9)), now_ms=0)
    window.ask([], now_ms=600)
    assert window.rtt_ms == 600
    window.ask(gaps((20, 29)), now_ms=1_000)
    # srtt + 4 * rttvar = 600 + 4 * 300
    assert window.next_deadline() == 1_000 + 1_800
    window.ask(gaps((20, 29)), now_ms=3_000)
    window.ask([], now_ms=9_000)
    assert window.rtt_ms == 600


def test_the_wait_is_bounded_and_jittered() -> None:
    window = NackWindow(Random(1), NackSettings(jitter_ms=250))
    for start in range(0, 10_000, 10):
        window.ask(gaps((start, start + 5)), now_ms=start)
        due_ms = window.next_deadline()
        assert due_ms is not None
        assert start + 1_000 <= due_ms < start + 4_250
        window.ask([], now_ms=start + 5)
    waits = set()
    for _ in range(20):
        window.ask(gaps((1, 1)), now_ms=0)
        waits.add(window.next_deadline())
        window.ask([], now_ms=1)
    assert len(waits) > 5


def test_no_more_ranges_are_asked_for_than_allowed() -> None:
    window = NackWindow(Random(1), NackSettings(asked_max=2))
    assert window.ask(gaps((0, 0), (5, 5), (9, 9)), now_ms=0) == gaps((0, 0), (5, 5))
    assert window.ask(gaps((5, 5), (9, 9)), now_ms=1) == gaps((9, 9))


def test_what_there_is_no_room_for_is_asked_for_at_once_when_there_is() -> None:
    window = NackWindow(Random(1), STEADY)
    window.ask(gaps((0, 0), (5, 9), (20, 29)), now_ms=0)
    assert window.ask(gaps((0, 0), (5, 9), (20, 29)), now_ms=10, full_from=7) == []
    # Nor is it asked for again while there is none, and how long that takes is not how long answers take.
    assert window.ask(gaps((0, 0), (5, 9), (20, 29)), now_ms=1_000, full_from=7) == gaps((0, 0), (5, 6))
    assert window.rtt_ms is None
    assert window.ask(gaps((7, 9), (20, 29)), now_ms=1_010) == gaps((7, 9), (20, 29))
    window.ask(gaps((20, 29)), now_ms=1_050)
    assert window.rtt_ms == 40


def test_without_gaps_nothing_is_asked_for() -> None:
    window = NackWindow(Random(1), STEADY)
    assert window.ask([], now_ms=0) == []
    assert window.next_deadline() is None


def test_what_was_asked_for_of_another_is_forgotten_but_not_how_long_answers_take() -> None:
    window = NackWindow(Random(1), STEADY)
    window.ask(gaps((0, 9)), now_ms=0)
    window.ask(gaps((20, 29)), now_ms=600)
    window.clear()
    assert window.next_deadline() is None
    assert window.rtt_ms == 600
    assert window.ask(gaps((20, 29)), now_ms=601) == gaps((20, 29))


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(MisuseError, match="not positive and ordered"):
        NackSettings(retry_ms_min=5_000)
