from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.streams import EdgeSettings, EdgeStream, Knowledge

LAST = 40

streams = st.sets(st.integers(0, LAST), max_size=25)
"""The ticks of a pubend at which something was published; all others are silence."""
pieces = st.lists(
    st.tuples(st.integers(0, LAST), st.integers(0, LAST)).map(lambda ends: (min(ends), max(ends))), max_size=20
)


def body(tick: int) -> bytes:
    return bytes([tick]) * 10


def knowledge(published: set[int], first: int, last: int, version: int = 0) -> Knowledge:
    """What a pubend says of a range. An older version of the filter wants even ticks only; version 1 wants all."""
    wanted = sorted(tick for tick in published if first <= tick <= last and (version or tick % 2 == 0))
    return Knowledge(first, last, tuple((tick, body(tick)) for tick in wanted), version)


@settings(max_examples=300)
@given(streams, pieces, st.integers(1, 60), st.integers(1, 120))
def test_whatever_comes_in_whatever_order_is_delivered_once_in_order_and_completely(
    published: set[int], arrivals: list[tuple[int, int]], window_ticks: int, window_bytes: int
) -> None:
    stream = EdgeStream(0, EdgeSettings(window_ticks, window_bytes))
    delivered: list[tuple[int, bytes]] = []
    for first, last in arrivals:
        stream.learn(knowledge(published, first, last, 1))
        stream.check_invariants()
        delivered += stream.take()
        # Nothing at or beyond the doubt horizon, everything before it.
        assert [tick for tick, _ in delivered] == sorted(tick for tick in published if tick < stream.horizon)
    for _ in range(2 * LAST + 2):
        # Asking for the gaps until nothing is in doubt any more must come to an end.
        stream.heard = LAST
        for gap in stream.gaps(LAST):
            stream.learn(knowledge(published, gap.first, gap.last, 1))
        stream.check_invariants()
        delivered += stream.take()
    assert stream.horizon == LAST + 1
    assert delivered == [(tick, body(tick)) for tick in sorted(published)]
    assert stream.pending_bytes == 0


@settings(max_examples=300)
@given(streams, pieces, st.lists(st.integers(0, 1), min_size=20, max_size=20), st.integers(0, LAST))
def test_the_silence_of_an_old_filter_is_not_believed_where_a_newer_one_is_demanded(
    published: set[int], arrivals: list[tuple[int, int]], versions: list[int], start: int
) -> None:
    stream = EdgeStream(0, EdgeSettings(LAST + 1, 10_000))
    delivered: list[int] = []
    for place, ((first, last), version) in enumerate(zip(arrivals, versions, strict=False)):
        if place == len(arrivals) // 2:
            # From here on somebody wants odd ticks, too, beginning at the start tick or the horizon.
            start = max(start, stream.horizon)
            stream.demand(1, start)
        stream.learn(knowledge(published, first, last, version))
        delivered += [tick for tick, _ in stream.take()]
        stream.check_invariants()
    assert delivered == sorted(set(delivered))
    if arrivals:
        owed = [tick for tick in sorted(published) if start <= tick < stream.horizon]
        assert [tick for tick in delivered if tick >= start] == owed


def test_the_horizon_stops_at_the_first_unknown_tick() -> None:
    stream = EdgeStream(100)
    stream.learn(Knowledge(105, 110, ((107, b"later"),)))
    assert stream.take() == []
    assert stream.horizon == 100
    assert [(gap.first, gap.last) for gap in stream.gaps(200)] == [(100, 104)]
    stream.learn(Knowledge(100, 104))
    assert stream.take() == [(107, b"later")]
    assert stream.horizon == 111


def test_what_is_behind_the_horizon_is_old_news() -> None:
    stream = EdgeStream(0)
    stream.learn(Knowledge(0, 9, ((5, b"x"),)))
    assert stream.take() == [(5, b"x")]
    stream.learn(Knowledge(0, 9, ((5, b"x"),)))
    assert stream.take() == []


def test_data_beyond_the_receive_window_is_ignored_and_counted() -> None:
    stream = EdgeStream(0, EdgeSettings(window_ticks=10, window_bytes=100))
    stream.learn(Knowledge(20, 30, ((25, b"far"),)))
    assert stream.ignored_ticks == 1
    assert stream.heard == 30
    assert [(gap.first, gap.last) for gap in stream.gaps(100)] == [(0, 9)]


def test_windows_must_be_positive() -> None:
    with pytest.raises(MisuseError, match="is not positive"):
        EdgeSettings(window_ticks=0)
