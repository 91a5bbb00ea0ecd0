from __future__ import annotations

from penstock.pipeline.source.planning import plan_splits, ranges_between
from penstock.pipeline.source.splits import TickSplit
from pipeline.source.support import SECOND, T0, FakeLog, source_options


def test_ranges_lie_between_positions_that_both_know() -> None:
    start = {"same": 5, "moved": 5, "gone": 5}
    end = {"same": 5, "moved": 9, "new": 9, "gone": 5}
    assert ranges_between(start, end) == [TickSplit("moved", 5, 8)]
    assert ranges_between({"back": 9}, {"back": 5}) == []


def test_a_long_range_is_split_around_its_messages() -> None:
    log = FakeLog()
    log.fill("a", [T0 + place * SECOND for place in range(100, 110)], earliest=0, latest=T0 + 10**6 * SECOND)
    whole = TickSplit("a", 0, T0 + 10**6 * SECOND)
    splits = plan_splits(log, [whole], source_options(splits_max=4, split_ms_min=1_000))
    assert len(splits) == 4
    assert (splits[0].first, splits[-1].last) == (whole.first, whole.last)
    assert all(T0 + 100 * SECOND < split.first < T0 + 111 * SECOND for split in splits[1:])


def test_a_short_range_is_not_even_looked_at() -> None:
    log = FakeLog()
    whole = TickSplit("a", T0, T0 + SECOND)
    assert plan_splits(log, [whole], source_options()) == [whole]
    assert plan_splits(log, [TickSplit("a", 0, T0)], source_options(splits_max=1)) == [TickSplit("a", 0, T0)]
    assert log.reads == 0
