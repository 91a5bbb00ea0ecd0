"""Ticks: their parts, their readable text against the standard library's calendar, and ranges of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.tick import (
    TICK_MAX,
    TICK_MIN,
    Tick,
    TickRange,
    _civil_from_days,
    format_tick,
    tick_at,
    tick_counter,
    tick_ms,
)

MS_MAX, COUNTER_MAX = 2**48 - 1, 2**16 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_DATE_MS = (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


@given(st.integers(0, MS_MAX), st.integers(0, COUNTER_MAX))
def test_a_tick_gives_back_the_millisecond_and_the_counter_it_was_made_of(ms: int, counter: int) -> None:
    tick = tick_at(ms, counter)
    assert TICK_MIN <= tick <= TICK_MAX
    assert (tick_ms(tick), tick_counter(tick)) == (ms, counter)


def test_ticks_are_ordered_by_time_and_then_by_counter() -> None:
    assert tick_at(5) < tick_at(5, 1) < tick_at(5, COUNTER_MAX) < tick_at(6)
    assert tick_at(5, COUNTER_MAX) + 1 == tick_at(6)


def test_the_first_and_the_last_tick_are_the_ends_of_64_bits() -> None:
    assert tick_at(0) == TICK_MIN == 0
    assert tick_at(MS_MAX, COUNTER_MAX) == TICK_MAX == 2**64 - 1


@pytest.mark.parametrize(("ms", "counter"), [(-1, 0), (2**48, 0), (0, -1), (0, 2**16)])
def test_parts_that_do_not_fit_break_an_invariant(ms: int, counter: int) -> None:
    with pytest.raises(AssertionError, match="is outside 0 to"):
        tick_at(ms, counter)


def test_a_tick_reads_as_its_time_and_counter() -> None:
    assert format_tick(tick_at(1_794_736_800_000, 3)) == "2026-11-15T10:00:00.000Z+3"
    assert format_tick(TICK_MIN) == "1970-01-01T00:00:00.000Z+0"
    assert format_tick(TICK_MAX) == "10889-08-02T05:31:50.655Z+65535"


@given(st.integers(0, LAST_DATE_MS), st.integers(0, COUNTER_MAX))
@example(LAST_DATE_MS, 0)
def test_the_text_of_a_tick_agrees_with_the_standard_library(ms: int, counter: int) -> None:
    expected = (EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None).isoformat(timespec="milliseconds")
    assert format_tick(tick_at(ms, counter)) == f"{expected}Z+{counter}"


def test_every_day_of_a_whole_cycle_of_the_calendar_is_right() -> None:
    first = date(1970, 1, 1).toordinal()
    for days in range(146_097 + 366):
        expected = date.fromordinal(first + days)
        assert _civil_from_days(days) == (expected.year, expected.month, expected.day)


def test_a_tick_outside_64_bits_has_no_text() -> None:
    for wrong in (-1, 2**64):
        with pytest.raises(AssertionError, match="outside 64 bits"):
            format_tick(Tick(wrong))


def test_a_range_includes_both_its_ends() -> None:
    ticks = TickRange(Tick(3), Tick(5))
    assert [ticks.covers(tick) for tick in (2, 3, 4, 5, 6)] == [False, True, True, True, False]
    assert ticks.tick_count == 3
    assert TickRange(Tick(3), Tick(3)).tick_count == 1


def test_a_range_is_a_pair() -> None:
    first, last = TickRange(Tick(3), Tick(5))
    assert (first, last) == (3, 5) == TickRange(Tick(3), Tick(5))
