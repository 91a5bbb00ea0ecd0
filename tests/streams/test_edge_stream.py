from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.streams import COMPLETE, EdgeSettings, EdgeStream, Knowledge
from strategies import tries

LAST = 40
WIDE = EdgeSettings(window_ticks=1_000, window_bytes=1_000_000, ranges_max=1_000)

publications = st.dictionaries(st.integers(0, LAST), st.integers(0, 4), max_size=25)
"""The ticks at which something was published, each with the first version of the filter that wants it."""
pieces = st.tuples(
    st.tuples(st.integers(0, LAST), st.integers(0, LAST)).map(lambda ends: (min(ends), max(ends))),
    st.sampled_from([-1, 0, 1, 2, 3, COMPLETE]),
)
demands = st.tuples(st.integers(0, 3), st.integers(0, LAST))
steps = st.lists(st.one_of(pieces, pieces, demands), max_size=25)
"""Knowledge of a range, narrowed by a version; or a demand of a version from a tick on."""
Step = tuple[tuple[int, int], int] | tuple[int, int]


def body(tick: int) -> bytes:
    return bytes([tick]) * 10


def knowledge(wanted_since: dict[int, int], first: int, last: int, version: int = COMPLETE) -> tuple[Knowledge, int]:
    """What is said of a range to a host whose filter has this version, and that version."""
    wanted = sorted(t for t, since in wanted_since.items() if first <= t <= last and since <= version)
    return Knowledge("p", first, last, wanted, [body(tick) for tick in wanted]), version


@dataclass
class Model:
    """What a stream knows, tick by tick, if it has room for everything."""

    horizon: int = 0
    demanded: list[int] = field(default_factory=lambda: [0] * (LAST + 1))
    silent: list[int] = field(default_factory=lambda: [-1] * (LAST + 1))
    data: set[int] = field(default_factory=set)

    def demand(self, version: int, from_tick: int) -> None:
        for tick in range(from_tick, LAST + 1):
            self.demanded[tick] = max(self.demanded[tick], version)

    def learn(self, piece: Knowledge, version: int) -> list[int]:
        """Answers with what can be delivered."""
        start = self.horizon
        self.data.update(tick for tick in piece.ticks if tick >= start)
        for tick in range(piece.first, piece.last + 1):
            self.silent[tick] = max(self.silent[tick], version)
        while self.horizon <= LAST and self.knows(self.horizon):
            self.horizon += 1
        return [tick for tick in range(start, self.horizon) if tick in self.data]

    def knows(self, tick: int) -> bool:
        return tick < self.horizon or tick in self.data or self.silent[tick] >= self.demanded[tick]


@settings(max_examples=tries(500))
@given(publications, steps)
def test_a_stream_with_room_for_everything_does_what_a_model_by_ticks_does(
    wanted_since: dict[int, int], changes: list[Step]
) -> None:
    stream, model = EdgeStream(0, WIDE), Model()
    delivered: list[int] = []

    def learn(piece: Knowledge, version: int) -> None:
        before = model.horizon
        expected = model.learn(piece, version)
        stream.learn(piece, version)
        ticks, bodies = stream.take()
        assert ticks == expected
        assert bodies == [body(tick) for tick in ticks]
        # The oracle is held to the law itself: nothing that was demanded is missing.
        passed = range(before, model.horizon)
        assert {t for t in passed if wanted_since.get(t, COMPLETE) <= model.demanded[t]} <= set(ticks)
        delivered.extend(ticks)

    for one, other in changes:
        if isinstance(one, tuple):
            learn(*knowledge(wanted_since, *one, other))
        else:
            stream.demand(one, other)
            model.demand(one, other)
        stream.check_invariants()
        assert stream.horizon == model.horizon
        unknown = [tick for gap in stream.unknown(0, LAST) for tick in range(gap.first, gap.last + 1)]
        assert unknown == [tick for tick in range(LAST + 1) if not model.knows(tick)]
    # Only the gaps are filled, so that what was lost from between them would show.
    for gap in stream.unknown(0, LAST):
        learn(*knowledge(wanted_since, gap.first, gap.last))
    assert stream.horizon == LAST + 1
    assert delivered == sorted(set(delivered))
    assert stream.ignored_ticks == 0


@settings(max_examples=tries(500))
@given(publications, steps, st.integers(1, 60), st.integers(1, 400), st.integers(1, 6))
def test_within_any_bounds_what_is_demanded_is_delivered_once_in_order_and_completely(
    wanted_since: dict[int, int], changes: list[Step], window_ticks: int, window_bytes: int, ranges_max: int
) -> None:
    stream = EdgeStream(0, EdgeSettings(window_ticks, window_bytes, ranges_max))
    model = Model()
    delivered: list[int] = []
    owed: list[int] = []

    def learn(piece: Knowledge, version: int) -> None:
        before = stream.horizon
        stream.learn(piece, version)
        stream.check_invariants()
        ticks, bodies = stream.take()
        assert bodies == [body(tick) for tick in ticks]
        assert all(before <= tick < stream.horizon for tick in ticks)
        delivered.extend(ticks)
        passed = range(before, stream.horizon)
        owed.extend(t for t in passed if wanted_since.get(t, COMPLETE) <= model.demanded[t])

    for one, other in changes:
        if isinstance(one, tuple):
            learn(*knowledge(wanted_since, *one, other))
        else:
            stream.demand(one, other)
            model.demand(one, other)
            stream.check_invariants()
    for _ in range(LAST + 1):
        # Asking for the gaps, as far as the window goes, must come to an end; the last gap may be answered first.
        stream.heard = LAST
        end = LAST if stream.full_from is None else stream.full_from - 1
        assert end >= stream.horizon or stream.horizon > LAST
        for gap in reversed(stream.gaps(end)):
            learn(*knowledge(wanted_since, gap.first, gap.last))
    assert stream.horizon == LAST + 1
    assert delivered == sorted(set(delivered))
    assert set(owed) <= set(delivered) <= set(wanted_since)
    assert stream.pending_bytes == 0
    assert stream.take() == ([], [])


def pairs(stream: EdgeStream, until: int = 10**9) -> list[tuple[int, int]]:
    return [(gap.first, gap.last) for gap in stream.gaps(until)]


def test_the_horizon_stops_at_the_first_unknown_tick() -> None:
    stream = EdgeStream(100)
    stream.learn(Knowledge("p", 105, 110, (107,), (b"later",)), version=0)
    assert stream.take() == ([], [])
    assert stream.horizon == 100
    assert stream.pending_bytes == 5
    assert pairs(stream) == [(100, 104)]
    assert pairs(stream, 102) == [(100, 102)]
    assert stream.unknown(103, 200) == [(103, 104), (111, 200)]
    stream.learn(Knowledge("p", 100, 104), version=0)
    assert stream.horizon == 111
    assert stream.take() == ([107], [b"later"])
    assert stream.unknown(0, 110) == []


def test_what_is_behind_the_horizon_is_old_news() -> None:
    stream = EdgeStream(0)
    for _ in range(2):
        stream.learn(Knowledge("p", 0, 9, (5,), (b"x",)), version=0)
    assert stream.take() == ([5], [b"x"])
    stream.learn(Knowledge("p", 0, 12, (5, 11), (b"x", b"y")), version=0)
    assert stream.take() == ([11], [b"y"])


def test_a_clock_that_jumps_by_an_hour_is_followed_at_once() -> None:
    stream = EdgeStream(0, EdgeSettings(window_ticks=10, window_bytes=100))
    stream.learn(Knowledge("p", 0, 3_600_000 << 16, (3_600_000 << 16,), (bytes(1_000),)), version=0)
    assert stream.horizon == (3_600_000 << 16) + 1
    assert len(stream.take()[0]) == 1
    assert stream.ignored_ticks == 0


def test_data_beyond_the_receive_window_is_ignored_and_counted() -> None:
    stream = EdgeStream(0, EdgeSettings(window_ticks=10, window_bytes=100))
    stream.learn(Knowledge("p", 20, 30, (25,), (b"far",)), version=0)
    assert stream.ignored_ticks == 1
    assert stream.heard == 30
    assert pairs(stream) == [(0, 9)]
    stream.learn(Knowledge("p", 5, 30, (7, 8), (b"near", bytes(100))), version=0)
    assert stream.ignored_ticks == 2
    assert stream.pending_bytes == 4
    assert pairs(stream) == [(0, 4), (8, 9)]


@pytest.mark.parametrize("version", [0, COMPLETE])
def test_what_came_and_did_not_fit_is_worth_asking_for_only_when_it_would(version: int) -> None:
    # With room for two of these messages, whether the silence around them is believed or not.
    stream = EdgeStream(0, EdgeSettings(window_ticks=100, window_bytes=2 * (64 + 10)))
    stream.demand(1, 0)
    for tick in (50, 5):
        stream.learn(Knowledge("p", tick, tick, (tick,), (body(tick),)), version)
        assert stream.full_from is None
    for tick in (30, 10, 20):
        stream.learn(Knowledge("p", tick, tick, (tick,), (body(tick),)), version)
    assert stream.full_from == 10
    stream.learn(Knowledge("p", 0, 3), version=COMPLETE)
    assert stream.full_from == 10
    # The message at 5 is taken out, and makes room.
    stream.learn(Knowledge("p", 4, 4), version=COMPLETE)
    assert stream.horizon == 6
    assert stream.full_from is None


def test_what_the_horizon_waits_for_is_worth_asking_for_though_nothing_else_fits() -> None:
    stream = EdgeStream(0, EdgeSettings(window_ticks=100, window_bytes=64 + 10))
    full_from = []
    for first, last, *ticks in ((50, 50, 50), (10, 10, 10), (20, 20, 20), (200, 200, 200), (0, 9), (20, 20, 20)):
        stream.learn(Knowledge("p", first, last, ticks, [body(tick) for tick in ticks]), version=0)
        full_from.append(stream.full_from)
    # When the horizon gets to what did not fit, what else did not is not known any more, until it comes again.
    assert full_from == [None, 10, 10, 10, None, 20]


def test_data_that_newer_knowledge_carries_for_ticks_taken_for_silence_is_kept() -> None:
    stream = EdgeStream(0)
    stream.learn(Knowledge("p", 10, 19), version=1)
    stream.learn(Knowledge("p", 10, 19, (15,), (b"x",)), version=2)
    stream.demand(2, 0)
    assert pairs(stream) == [(0, 9)]
    stream.learn(Knowledge("p", 0, 9), version=2)
    assert stream.take() == ([15], [b"x"])


def test_old_knowledge_does_not_lower_what_was_heard_of() -> None:
    stream = EdgeStream(0)
    stream.learn(Knowledge("p", 20, 30), version=0)
    stream.learn(Knowledge("p", 5, 9), version=0)
    assert stream.heard == 30


def test_who_hears_otherwise_may_raise_what_is_asked_for() -> None:
    stream = EdgeStream(0)
    assert pairs(stream) == []
    stream.heard = 7
    assert pairs(stream) == [(0, 7)]


def test_silence_of_the_demanded_version_or_a_later_one_is_not_doubted() -> None:
    stream = EdgeStream(0)
    stream.learn(Knowledge("p", 10, 19, (15,), (b"x",)), version=1)
    stream.learn(Knowledge("p", 20, 29), version=3)
    stream.learn(Knowledge("p", 30, 39), version=COMPLETE)
    stream.demand(1, 0)
    assert pairs(stream) == [(0, 9)]
    stream.demand(2, 13)
    assert pairs(stream) == [(0, 9), (13, 14), (16, 19)]
    stream.demand(4, 25)
    assert pairs(stream) == [(0, 9), (13, 14), (16, 19), (25, 29)]
    stream.check_invariants()


def test_an_older_demand_that_comes_late_counts_where_no_newer_one_does() -> None:
    stream = EdgeStream(0)
    stream.demand(5, 20)
    stream.demand(3, 10)
    stream.demand(4, 30)
    stream.learn(Knowledge("p", 0, 9), version=0)
    assert stream.horizon == 10
    stream.learn(Knowledge("p", 0, 40), version=2)
    assert stream.horizon == 10
    stream.learn(Knowledge("p", 0, 40), version=4)
    assert stream.horizon == 20
    stream.learn(Knowledge("p", 0, 40), version=5)
    assert stream.horizon == 41


def test_demands_one_after_the_other_need_no_memory() -> None:
    stream = EdgeStream(0)
    for version in range(1, 5_000):
        stream.demand(version, stream.horizon + 5)
        stream.learn(Knowledge("p", stream.horizon, stream.horizon + 2), version=version - 1)
        stream.learn(Knowledge("p", stream.horizon, stream.horizon + 2), version=version)
        assert len(stream._starts) < 10
    stream.check_invariants()


def test_demands_at_a_horizon_that_does_not_move_are_bounded_and_begin_rather_too_early() -> None:
    stream = EdgeStream(0)
    for version in range(1, 3_000):
        stream.demand(version, 10 * version)
    stream.check_invariants()
    stream.learn(Knowledge("p", 0, 9), version=0)
    assert stream.horizon == 10
    stream.learn(Knowledge("p", 10, 50_000), version=2_998)
    assert stream.horizon <= 29_990
    stream.learn(Knowledge("p", 10, 50_000), version=2_999)
    assert stream.horizon == 50_001


@pytest.mark.parametrize("version", [-1, 0])
def test_single_ticks_from_a_hostile_neighbour_are_bounded_but_never_stop_the_horizon(version: int) -> None:
    stream = EdgeStream(0, EdgeSettings(ranges_max=8))
    for tick in range(1, 200, 2):
        stream.learn(Knowledge("p", tick, tick, (tick,), (b"",)), version)
    stream.check_invariants()
    assert stream.ignored_ticks == 92
    for tick in range(200):
        stream.learn(Knowledge("p", tick, tick, (tick,), (b"",)), version=-1)
    assert stream.horizon == 200
    assert stream.take()[0] == list(range(200))


def test_windows_must_be_positive() -> None:
    with pytest.raises(MisuseError, match="is not positive"):
        EdgeSettings(window_ticks=0)
    with pytest.raises(MisuseError, match="0 ranges is not positive"):
        EdgeSettings(ranges_max=0)
