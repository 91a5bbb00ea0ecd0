"""Pubends: ticks that only grow, whatever the clock does, and news told from repetition."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.broker.pubends import NUMBERS_MAX, Pubends
from penstock.model.tick import tick_at
from penstock.protocol.data_frames import is_guaranteed_number
from strategies import tries


@settings(max_examples=tries(300))
@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 70_000)), max_size=12))
@example([(1000, 3), (10, 3), (1000, 1), (999, 70_000), (1000, 1)])
def test_ticks_strictly_increase_also_when_the_clock_steps_back(batches: list[tuple[int, int]]) -> None:
    pubends = Pubends(("p",))
    last = 0
    for now_ms, count in batches:
        ticks = pubends.next_ticks("p", count, now_ms=now_ms)
        assert len(ticks) == count
        for tick in ticks:
            assert tick > last
            last = tick
        if ticks:
            assert ticks[0] >= tick_at(now_ms)
            assert pubends.last_tick("p") == last


def test_ticks_start_from_the_clock_and_so_grow_across_restarts() -> None:
    before = Pubends(("p",)).next_ticks("p", 3, now_ms=1000)
    after = Pubends(("p",)).next_ticks("p", 3, now_ms=1001)
    assert before == [tick_at(1000), tick_at(1000) + 1, tick_at(1000) + 2]
    assert after[0] == tick_at(1001) > before[-1]


def test_the_first_tick_is_not_zero_even_if_the_clock_is() -> None:
    # Zero is what was seen last of a pubend that was never seen.
    pubends = Pubends(("p",))
    ticks = pubends.next_ticks("p", 1, now_ms=0)
    assert ticks == [1]
    assert Pubends(()).newer("p", ticks) == 1


def test_pubends_have_ticks_of_their_own() -> None:
    pubends = Pubends(("p", "q"))
    pubends.next_ticks("p", 5, now_ms=1000)
    assert pubends.next_ticks("q", 1, now_ms=500) == [tick_at(500)]
    assert pubends.last_tick("r") == 0


@settings(max_examples=tries(300))
@given(st.lists(st.sets(st.integers(1, 40), max_size=8).map(sorted), max_size=10))
def test_only_what_is_newer_than_all_that_was_seen_is_news(frames: list[list[int]]) -> None:
    pubends, last = Pubends(()), 0
    passed: list[int] = []
    for ticks in frames:
        fresh = pubends.newer("p", ticks)
        assert ticks[len(ticks) - fresh :] == [tick for tick in ticks if tick > last]
        passed += ticks[len(ticks) - fresh :]
        last = max([last, *ticks])
        assert pubends.last_tick("p") == last
    assert passed == sorted(set(passed))


def test_news_of_one_pubend_is_not_news_of_another() -> None:
    pubends = Pubends(())
    assert pubends.newer("p", [5, 6]) == 2
    assert pubends.newer("p", [5, 6]) == 0
    assert pubends.newer("q", [5, 6]) == 2
    assert pubends.newer("p", []) == 0
    assert pubends.last_tick("p") == 6


def test_a_named_pubend_is_chosen_if_it_is_here() -> None:
    pubends = Pubends(("p", "q"))
    assert pubends.choose("q", 1) == "q"
    assert pubends.choose("r", 1) is None
    assert Pubends(()).choose("p", 1) is None
    assert Pubends(()).choose("", 1) is None


def test_who_names_no_pubend_always_gets_the_same_and_all_are_used() -> None:
    pubends = Pubends(("p", "q", "r"))
    chosen = [pubends.choose("", publisher) for publisher in range(2**32 - 300, 2**32)]
    assert chosen == [pubends.choose("", publisher) for publisher in range(2**32 - 300, 2**32)]
    assert min(Counter(chosen)[name] for name in pubends.names) > 50


def test_numbers_are_given_once_and_stay() -> None:
    pubends = Pubends(())
    assert pubends.numbered() == ()
    assert pubends.number_of("x", is_guaranteed=True) == (0, True)
    assert pubends.number_of("y", is_guaranteed=True) == (2, True)
    assert pubends.number_of("x", is_guaranteed=True) == (0, False)
    assert pubends.numbered() == ((0, "x"), (2, "y"))


def test_a_pubend_of_another_service_class_has_another_number_which_tells_the_class() -> None:
    pubends = Pubends(())
    numbers = [pubends.number_of(name, is_guaranteed=each)[0] or 0 for name in ("x", "y") for each in (True, False)]
    assert len({*numbers}) == 4
    assert [is_guaranteed_number(each) for each in numbers] == [True, False, True, False]
    assert [name for _, name in pubends.numbered()] == ["x", "x", "y", "y"]


def test_numbers_are_bounded_and_fit_a_delivery() -> None:
    pubends = Pubends(())
    for place in range(NUMBERS_MAX):
        assert pubends.number_of(f"p{place}", is_guaranteed=False)[1]
    assert pubends.number_of("one-more", is_guaranteed=False) == (None, False)
    assert pubends.number_of("p0", is_guaranteed=False) == (1, False)
    # What a rogue broker makes up as best effort keeps no guaranteed pubend out.
    assert pubends.number_of("one-more", is_guaranteed=True) == (0, True)
    assert max(number for number, _ in pubends.numbered()) < 2**16


def test_last_ticks_of_pubends_that_are_gone_are_forgotten_when_they_are_many() -> None:
    pubends = Pubends(("mine",))
    pubends.next_ticks("mine", 1, now_ms=5)
    for place in range(50_000):
        pubends.newer(f"p{place}", [7])
    pubends.remember(lambda name: name == "p3")
    assert [pubends.last_tick(name) for name in ("mine", "p3", "p4")] == [tick_at(5), 7, 0]
