from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.reading import PubendSpan, Survey
from penstock.pipeline.source.offsets import Reach, advanced, bounded, lag_of, latest_of, silence_ms, target_of
from penstock.pipeline.source.probing import Reached
from penstock.pipeline.source.splits import TickSplit

MS = 1 << 16
SURVEY = Survey({"b": PubendSpan(20, 90), "a": PubendSpan(10, 80)}, ("away",))


def test_the_latest_position_is_behind_the_last_tick_in_the_order_of_names() -> None:
    assert list(latest_of(SURVEY).items()) == [("a", 81), ("b", 91)]


def test_a_target_bounds_and_leaves_out_what_came_later() -> None:
    assert target_of({"a": 81, "b": 91}, None) == {"a": 81, "b": 91}
    assert target_of({"a": 81, "b": 91}, {"a": 50}) == {"a": 50}
    assert target_of({"a": 81}, {"a": 500, "b": 1}) == {"a": 81}


def test_a_pubend_away_or_gone_stays_and_one_that_is_met_begins_at_its_beginning() -> None:
    end = advanced({"away": 5, "gone": 6, "b": 30}, latest_of(SURVEY))
    assert list(end.items()) == [("a", 0), ("away", 5), ("b", 91), ("gone", 6)]


def test_a_position_never_goes_back() -> None:
    assert advanced({"a": 500, "b": 500}, latest_of(SURVEY)) == {"a": 500, "b": 500}


def reach_in(ticks: dict[str, list[int]]) -> Reach:
    def reach(whole: TickSplit, rows: int) -> Reached:
        inside = [tick for tick in ticks[whole.pubend] if whole.first <= tick <= whole.last]
        return Reached(inside[rows - 1] + 1, rows) if len(inside) > rows else Reached(whole.last + 1, len(inside))

    return reach


@given(
    ticks=st.dictionaries(st.sampled_from("abcde"), st.lists(st.integers(0, 50), unique=True).map(sorted), min_size=1),
    rows_max=st.integers(1, 12),
)
def test_bounded_steps_reach_the_end_never_over_the_rows(ticks: dict[str, list[int]], rows_max: int) -> None:
    start = dict.fromkeys(sorted(ticks), 0)
    end = dict.fromkeys(sorted(ticks), 51)
    total = sum(map(len, ticks.values()))
    for _ in range(total // rows_max + len(ticks) + 2):
        found, rows = bounded(start, end, rows_max=rows_max, reach=reach_in(ticks))
        inside = sum(start[name] <= tick < found[name] for name in ticks for tick in ticks[name])
        assert inside == rows <= rows_max
        assert all(start[name] <= found[name] <= end[name] for name in ticks)
        left = sum(tick >= found[name] for name in ticks for tick in ticks[name])
        assert rows == rows_max or left == 0
        assert found != start or start == end
        start = found
    assert start == end


def test_rows_are_shared_and_the_one_most_behind_comes_first() -> None:
    ticks = {"a": list(range(100)), "b": list(range(100))}
    found, rows = bounded({"a": 0, "b": 0}, {"a": 100, "b": 100}, rows_max=10, reach=reach_in(ticks))
    assert (found, rows) == ({"a": 5, "b": 5}, 10)
    found, rows = bounded({"a": 7, "b": 3}, {"a": 100, "b": 100}, rows_max=1, reach=reach_in(ticks))
    assert (found, rows) == ({"a": 7, "b": 4}, 1)


def test_what_one_leaves_over_goes_to_the_others() -> None:
    ticks = {"a": list(range(100)), "b": [50]}
    found, rows = bounded({"a": 0, "b": 1}, {"a": 100, "b": 100}, rows_max=10, reach=reach_in(ticks))
    assert (found, rows) == ({"a": 9, "b": 100}, 10)


def test_pubends_met_or_at_rest_are_left_as_they_are() -> None:
    found, rows = bounded({"a": 4}, {"a": 4, "new": 9}, rows_max=1, reach=reach_in({}))
    assert (found, rows) == ({"a": 4, "new": 9}, 0)


def test_silence_is_the_time_of_the_one_that_came_farthest() -> None:
    assert silence_ms({"a": 0, "b": 5 * MS}, {"a": 2 * MS, "b": 9 * MS, "new": 99 * MS}) == 4
    assert silence_ms({}, {"a": 9 * MS}) == 0


class Progress:
    def __init__(self, sources: list[Any]) -> None:
        self.json = json.dumps({"sources": sources})


def test_lag_is_read_from_objects_and_from_texts_within() -> None:
    first = {"endOffset": json.dumps({"a": 1, "c": 0}), "latestOffset": json.dumps({"a": 9 * MS, "b": 1, "c": 1})}
    second = {"endOffset": {"a": 9 * MS}, "latestOffset": {"a": 2 * MS}}
    assert lag_of(Progress([first, second])) == {"a": 9, "b": None, "c": None}
    assert lag_of(Progress([first, second]), source=1) == {"a": 0}
    assert lag_of({"sources": [{"endOffset": {"a": 1}, "latestOffset": None}]}) == {"a": None}
