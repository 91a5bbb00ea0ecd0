from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.tracking.spans import TimeIndex, united_spans

times = st.integers(0, 60)
spans = st.tuples(times, times).map(lambda pair: (min(pair), max(pair)))


def test_a_range_widens_to_both_sides() -> None:
    index = TimeIndex()
    assert index.hull() is None
    assert 5 not in index
    index.widen(5, 7)
    index.widen(3, 4)
    index.widen(6, 9)
    assert (index.range, index.hull()) == ((3, 9), (3, 9))
    assert [each for each in range(12) if each in index] == list(range(3, 10))


def test_singletons_do_not_widen_the_range() -> None:
    index = TimeIndex((100, 110))
    assert index.add_singletons([5, 7], 8)
    assert index.range == (100, 110)
    assert index.singletons == ((5, 5), (7, 7))
    assert (5 in index, 6 in index, 105 in index, 99 in index) == (True, False, True, False)
    assert index.hull() == (5, 110)


def test_too_many_singletons_are_refused_as_a_whole() -> None:
    index = TimeIndex()
    assert index.add_singletons([1, 3, 4], 2)
    assert not index.add_singletons([6, 8], 2)
    assert index.singletons == ((1, 1), (3, 4))
    assert index.add_singletons([2], 2)
    assert list(index.singletons) == [(1, 4)]


def test_joining_keeps_the_widest_gaps() -> None:
    index = TimeIndex()
    index.join_singletons([1, 10, 12, 50, 55], 3)
    assert index.singletons == ((1, 1), (10, 12), (50, 55))
    index.join_singletons([30], 1)
    assert list(index.singletons) == [(1, 55)]


@given(first=st.lists(spans, max_size=8), points=st.lists(times, max_size=20), bound=st.integers(1, 5))
def test_joining_never_loses_a_timestamp_and_keeps_its_bound(
    first: list[tuple[int, int]], points: list[int], bound: int
) -> None:
    index = TimeIndex(None, united_spans(first))
    before = [each for each in range(61) if each in index]
    index.join_singletons(points, bound)
    assert all(each in index for each in (*before, *points))
    assert len(index.singletons) <= bound


@given(some=st.lists(spans, max_size=8))
def test_united_spans_are_the_same_timestamps_in_order(some: list[tuple[int, int]]) -> None:
    united = united_spans(some)
    expected = {each for first, last in some for each in range(first, last + 1)}
    assert {each for first, last in united for each in range(first, last + 1)} == expected
    assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(united))


def test_the_union_of_two_indices_has_the_timestamps_of_both() -> None:
    one, other = TimeIndex((10, 20), [(1, 2)]), TimeIndex((15, 30), [(3, 3), (50, 50)])
    united = one.union(other, 8)
    assert (united.range, united.singletons) == ((10, 30), ((1, 3), (50, 50)))
    assert one.union(TimeIndex(), 8).range == (10, 20)
    assert TimeIndex().union(TimeIndex(), 8).hull() is None
