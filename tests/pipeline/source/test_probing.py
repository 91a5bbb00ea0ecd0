from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.source.probing import Reached, first_message, occupied_range, reach
from penstock.pipeline.source.splits import TickSplit
from penstock.selectors import EVERYTHING, Selector
from pipeline.source.support import SECOND, T0, FakeLog


def filled(ticks: list[int], latest: int) -> FakeLog:
    log = FakeLog()
    log.fill("a", ticks, earliest=0, latest=latest)
    return log


def test_the_first_message_is_found_by_selector_and_the_reading_given_up() -> None:
    log = filled([10, 20, 30, 40, 50], 99)
    whole = TickSplit("a", 0, 99)
    assert first_message(log, whole) == 10
    assert first_message(log, TickSplit("a", 11, 99)) == 20
    assert first_message(log, whole, Selector.parse("number = 4")) == 50
    assert first_message(log, whole, Selector.parse("number = 9")) is None
    assert log.reads == log.closed == 4


def test_the_occupied_range_leaves_out_silence_at_both_ends() -> None:
    log = filled([T0 + SECOND, T0 + 2 * SECOND], T0 + 10**6 * SECOND)
    found = occupied_range(log, TickSplit("a", 0, T0 + 10**6 * SECOND), near_ticks=SECOND)
    assert found is not None
    assert found[0] == T0 + SECOND
    assert T0 + 2 * SECOND <= found[1] <= T0 + 3 * SECOND
    assert log.reads <= 41


def test_an_empty_range_is_not_occupied() -> None:
    assert occupied_range(filled([], 99), TickSplit("a", 0, 99), near_ticks=1) is None


@given(
    ticks=st.lists(st.integers(0, 200), unique=True, max_size=30).map(sorted),
    first=st.integers(0, 200),
    rows_max=st.integers(1, 10),
    modulus=st.integers(1, 3),
)
def test_rows_reach_exactly_as_far_as_counting_says(ticks: list[int], first: int, rows_max: int, modulus: int) -> None:
    log = filled(ticks, 200)
    wanted = Selector.parse(f"number - number / {modulus} * {modulus} = 0")
    matching = [tick for place, tick in enumerate(ticks) if place % modulus == 0 and tick >= first]
    reached = reach(log, TickSplit("a", first, 200), selector=wanted, rows_max=rows_max, is_over=lambda: False)
    assert reached.rows == min(rows_max, len(matching))
    assert sum(tick < reached.tick for tick in matching) == reached.rows
    if len(matching) <= rows_max:
        assert reached.tick == 201
    assert log.closed == log.reads


def test_counting_ends_when_its_time_is_over_but_not_before_the_first_part() -> None:
    log = filled(list(range(0, 90, 10)), 99)
    whole = TickSplit("a", 0, 99)
    assert reach(log, whole, selector=EVERYTHING, rows_max=99, is_over=lambda: True) == Reached(21, 3)
