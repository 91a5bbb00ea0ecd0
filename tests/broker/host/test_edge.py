"""One pubend at a host: who takes part in the shared stream from where, and who is caught up."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from penstock.broker.host.edge import NEVER, CatchUp, Edge, HostSubscription
from penstock.broker.settings import BrokerSettings
from penstock.congestion.settings import CongestionSettings
from penstock.streams.knowledge import COMPLETE, Knowledge

GATHER_MS = 50
SETTINGS = BrokerSettings(
    "sb",
    receive_window_ms=10,
    catch_ups_max=2,
    congestion=CongestionSettings(nack_window_ms=1, nack_size_ms=1),
)


def subscription(key: int, version: int = 1) -> HostSubscription:
    return HostSubscription(key, 100 + key, 1, version)


def edge(horizon: int = 1_000, version: int = 1) -> Edge:
    made = Edge("p", 0, horizon, SETTINGS, Random(1))
    made.confirm(version, horizon)
    return made


def caught_up(made: Edge, *ticks: int, now_ms: int = 5_000) -> CatchUp:
    """With subscriptions that start at these ticks, and share one catch-up."""
    for tick in ticks:
        each = subscription(len(made.later) + 1)
        made.expect(each)
        assert made.begin(each, tick, now_ms=now_ms)
    assert made.start_catch_up(now_ms=now_ms + GATHER_MS)
    return made.catch_ups[-1]


def silence(first: int, last: int, version: int = COMPLETE) -> tuple[Knowledge, int]:
    return Knowledge("p", first, last), version


def test_who_waits_for_a_version_begins_when_it_is_confirmed() -> None:
    made = edge(version=1)
    new, old = subscription(1, version=3), subscription(2, version=1)
    made.expect(new)
    made.expect(old)
    assert made.confirm(2, 1_100) == [old]
    assert made.confirm(3, 1_200) == [new, old]
    assert made.confirmed_tick == 1_200
    made.confirm(2, 1_300)
    assert (made.version, made.confirmed_tick) == (3, 1_200)
    made.check_invariants()


def test_from_the_confirmed_tick_on_silence_of_an_older_version_is_in_doubt() -> None:
    made = edge(1_000, version=1)
    made.confirm(2, 1_100)
    made.learn(*silence(1_000, 1_500, version=1))
    assert made.stream.horizon == 1_100
    made.learn(*silence(1_000, 1_500, version=2))
    assert made.stream.horizon == 1_501


def test_a_start_ahead_of_the_horizon_is_waited_for() -> None:
    made, each = edge(), subscription(1)
    made.expect(each)
    assert not made.begin(each, 1_200, now_ms=5_000)
    assert each.starts == {"p": 1_200}
    assert made.later == {1: 1_200}
    made.learn(*silence(1_000, 1_199))
    made.settle()
    assert made.later == {}


def test_a_start_between_the_horizon_and_the_confirmed_tick_makes_old_silence_doubtful_from_there() -> None:
    made = edge(1_000, version=1)
    each = subscription(1, version=2)
    made.expect(each)
    made.confirm(2, 1_400)
    made.begin(each, 1_200, now_ms=5_000)
    made.learn(*silence(1_000, 1_500, version=1))
    assert made.stream.horizon == 1_200


def test_those_that_start_behind_gather_for_a_while_and_share_a_stream() -> None:
    made = edge()
    for key, tick, now_ms in ((1, 500, 5_000), (2, 300, 5_030)):
        each = subscription(key)
        made.expect(each)
        assert made.begin(each, tick, now_ms=now_ms)
    assert made.later == {1: NEVER, 2: NEVER}
    assert made.next_deadline() == 5_000 + GATHER_MS
    assert made.position() == 300
    assert not made.start_catch_up(now_ms=5_000 + GATHER_MS - 1)
    assert made.start_catch_up(now_ms=5_000 + GATHER_MS)
    (catch_up,) = made.catch_ups
    assert catch_up.members == {1: 500, 2: 300}
    assert catch_up.stream.horizon == 300
    assert not made.start_catch_up(now_ms=9_000)
    made.check_invariants()


def test_a_catch_up_ends_where_it_meets_the_shared_stream() -> None:
    made = edge(1_000)
    catch_up = caught_up(made, 500, 700)
    catch_up.stream.learn(*silence(500, 900))
    assert not made.join(catch_up)
    catch_up.stream.learn(*silence(901, 999))
    assert made.join(catch_up)
    assert made.catch_ups == []
    assert made.later == {}


def test_a_catch_up_that_is_ahead_lets_its_members_wait_for_the_shared_stream() -> None:
    made = edge(1_000)
    catch_up = caught_up(made, 500)
    catch_up.stream.learn(*silence(500, 1_299))
    assert made.join(catch_up)
    assert made.later == {1: 1_300}


def test_a_catch_up_does_not_end_where_the_shared_stream_is_of_an_older_version() -> None:
    made = edge(1_000, version=1)
    made.confirm(2, 1_500)
    catch_up = caught_up(made, 500)
    catch_up.stream.learn(*silence(500, 1_000, version=2))
    assert not made.join(catch_up)
    made.learn(*silence(1_000, 1_500, version=1))
    assert made.stream.horizon == 1_500
    catch_up.stream.learn(*silence(1_001, 1_600, version=2))
    assert made.join(catch_up)
    assert made.later == {1: 1_601}


def test_a_catch_up_believes_only_silence_of_the_version_that_its_members_need() -> None:
    made = edge(1_000, version=3)
    catch_up = caught_up(made, 500)
    catch_up.stream.learn(*silence(500, 900, version=2))
    assert catch_up.stream.horizon == 500
    catch_up.stream.learn(*silence(500, 900, version=3))
    assert catch_up.stream.horizon == 901


def test_only_so_many_catch_ups_run_and_the_others_go_on_gathering() -> None:
    made = edge()
    first, _ = caught_up(made, 100, now_ms=5_000), caught_up(made, 200, now_ms=6_000)
    third, fourth = subscription(11), subscription(12)
    for each in (third, fourth):
        made.expect(each)
        made.begin(each, 300, now_ms=7_000)
    assert not made.start_catch_up(now_ms=7_050)
    assert made.next_deadline() == 7_100
    made.leave(next(iter(first.members)))
    assert made.start_catch_up(now_ms=7_100)
    assert made.catch_ups[-1].members == {11: 300, 12: 300}
    made.check_invariants()


def test_who_leaves_is_nowhere_any_more() -> None:
    made = edge()
    catch_up = caught_up(made, 100, 200)
    gathering, awaiting = subscription(11), subscription(12, version=9)
    for each in (gathering, awaiting):
        made.expect(each)
    made.begin(gathering, 300, now_ms=6_000)
    for key in (1, 11, 12):
        made.leave(key)
    assert (made.gathering, made.awaiting) == ({}, {})
    assert made.later == {2: NEVER}
    assert made.catch_ups == [catch_up]
    made.leave(2)
    assert made.catch_ups == []
    assert not made.start_catch_up(now_ms=9_000)
    assert made.next_deadline() is None


def test_each_stream_asks_for_what_is_in_doubt_within_its_window_and_again_after_a_while() -> None:
    made = edge(1_000_000)
    made.learn(*silence(1_000_100, 1_000_200))
    made.learn(*silence(1_200_000, 1_200_100))
    caught_up(made, 500)
    asked = made.questions(now_ms=5_100, may_ask=lambda _: True)
    assert [tuple(each) for each in asked] == [
        (1_000_000, 1_000_099),
        # The window ends where a millisecond does.
        (1_000_201, (17 << 16) - 1),
        (500, (2 << 16) - 1),
    ]
    assert made.questions(now_ms=5_200, may_ask=lambda _: True) == []
    deadline_ms = made.next_deadline()
    assert deadline_ms is not None
    assert 6_100 <= deadline_ms <= 6_350
    assert len(made.questions(now_ms=6_400, may_ask=lambda _: True)) == 3


def test_what_did_not_fit_is_asked_for_as_soon_as_the_horizon_gets_there_and_not_after_a_while() -> None:
    made = Edge("p", 0, 0, replace(SETTINGS, receive_window_bytes=100), Random(1))
    made.learn(*silence(9, 9))

    def asked(now_ms: int) -> list[tuple[int, int]]:
        return [(first, last) for first, last in made.questions(now_ms=now_ms, may_ask=lambda _: True)]

    assert asked(5_000) == [(0, 8)]
    for tick in (8, 6, 4, 2):
        made.learn(Knowledge("p", tick, tick, [tick], [b"as long as this is"]), version=0)
    assert asked(5_010) == []
    for tick in (0, 2, 4, 6):
        delivered, _ = made.learn(Knowledge("p", tick, tick + 1, [tick], [b"as long as this is"]), version=0)
        assert delivered == ([6, 8] if tick == 6 else [tick])
        # All of it: what comes in order always fits.
        assert asked(5_020 + tick) == ([(2, 7)] if tick == 0 else [])
    assert made.stream.horizon == 10


def test_a_catch_up_whose_members_do_not_read_asks_for_nothing() -> None:
    made = edge(1_000)
    caught_up(made, 500)
    assert made.questions(now_ms=5_100, may_ask=lambda _: False) == []
    assert made.questions(now_ms=5_100, may_ask=lambda _: True) != []


def test_the_position_is_that_of_the_stream_that_is_furthest_behind() -> None:
    made = edge(1_000)
    assert made.position() == 1_000
    catch_up = caught_up(made, 500)
    assert made.position() == 500
    catch_up.stream.learn(*silence(500, 599))
    assert made.position() == 600


def test_a_token_lifts_the_window_of_catch_ups_and_of_nothing_else() -> None:
    made = edge()
    catch_up = caught_up(made, 300)
    made.lift(5)
    assert (catch_up.control.window_ms, made.control.nacks.window_ms) == (5, 1)
    later = caught_up(made, 200, now_ms=9_000)
    assert later.control.window_ms == 5
    made.lift(0)
    assert (catch_up.control.window_ms, later.control.window_ms) == (1, 1)
