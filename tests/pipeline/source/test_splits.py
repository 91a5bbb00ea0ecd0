from __future__ import annotations

import pickle
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.source.splits import TickSplit, is_wide, split_evenly

MS = 1 << 16


@given(
    first=st.integers(0, 2**61),
    before=st.integers(0, 10_000 * MS),
    inside=st.integers(0, 10_000 * MS),
    behind=st.integers(0, 10_000 * MS),
    splits_max=st.integers(1, 20),
    split_ms_min=st.integers(1, 5_000),
)
def test_parts_cover_every_tick_once(
    first: int, before: int, inside: int, behind: int, splits_max: int, split_ms_min: int
) -> None:
    low, high = first + before, first + before + inside
    whole = TickSplit("a", first, high + behind)
    parts = split_evenly(whole, (low, high), splits_max=splits_max, split_ms_min=split_ms_min)
    assert parts[0].first == whole.first
    assert parts[-1].last == whole.last
    assert all(one.last + 1 == other.first for one, other in pairwise(parts))
    assert all(part.first <= part.last for part in parts)
    assert 1 <= len(parts) <= splits_max
    if len(parts) > 1:
        cuts = [low, *(part.first for part in parts[1:]), high + 1]
        spans = [after - before for before, after in pairwise(cuts)]
        assert max(spans) - min(spans) <= 1
        assert min(spans) >= split_ms_min * MS


def test_a_long_range_has_as_many_parts_as_allowed() -> None:
    whole = TickSplit("a", 0, 10_000 * MS - 1)
    assert len(split_evenly(whole, (0, whole.last), splits_max=4, split_ms_min=1_000)) == 4
    assert len(split_evenly(whole, (0, whole.last), splits_max=40, split_ms_min=1_000)) == 10
    assert split_evenly(whole, None, splits_max=4, split_ms_min=1) == [whole]


def test_what_cannot_make_two_parts_is_not_wide() -> None:
    assert is_wide(TickSplit("a", 0, 2_000 * MS - 1), split_ms_min=1_000)
    assert not is_wide(TickSplit("a", 0, 2_000 * MS - 2), split_ms_min=1_000)


def test_a_split_travels_and_shows_what_it_is() -> None:
    split = TickSplit("pb1.a", 1, 2)
    assert pickle.loads(pickle.dumps(split)) == split  # noqa: S301
    assert repr(split) == "TickSplit(pb1.a, 1, 2)"
