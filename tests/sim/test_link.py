"""Links dial until they are connected, tell both ends of losses they can know of, and lose what a cut loses."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from penstock.broker.outbox import Outbox
from penstock.protocol.frames import Frame, Heartbeat
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.link import Dialling, End, Link
from penstock.sim.wire import LinkOptions


class Talker:
    """A node that notes what happens to it."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name, self.clock = name, clock
        self.host = Host(clock)
        self.is_up = True
        self.ends: list[End] = []
        self.outbox = Outbox(control_bytes_max=1 << 20, data_bytes_max=1 << 20)
        self.seen: list[tuple[int, str]] = []

    def on_connected(self, end: End, *, dialled: str) -> None:
        self.outbox = Outbox(control_bytes_max=1 << 20, data_bytes_max=1 << 20)
        end.attach(self.outbox)
        self.ends.append(end)
        self.note(f"connected {dialled}".strip())

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        for frame in frames:
            assert isinstance(frame, Heartbeat)
            self.note(f"hears {frame.now_ms}")

    def on_lost(self, end: End) -> None:
        self.note("lost")

    def note(self, what: str) -> None:
        self.seen.append((self.clock.now_us // 1_000, what))

    def say(self, number: int) -> None:
        self.outbox.push_control(Heartbeat(number))
        self.ends[-1].wake()

    def heard(self) -> list[str]:
        return [what for _, what in self.seen]


class Pair:
    """Two talkers and a link of ten milliseconds, the first dialling."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.a, self.b = Talker("a", self.clock), Talker("b", self.clock)
        self.link = Link(
            self.clock, Random(1), self.a, self.b, options=LinkOptions(**{"latency_us": 10_000, **options})
        )
        self.link.want()

    def run(self, ms: int) -> None:
        self.clock.run_for(ms * 1_000)

    def connections(self) -> int:
        return self.a.heard().count("connected b")


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    made.run(20)
    return made


def test_a_wanted_link_connects_after_a_round_trip(pair: Pair) -> None:
    assert pair.a.seen == [(20, "connected b")]
    assert pair.b.seen == [(20, "connected")]
    assert pair.link.is_connected


def test_frames_travel_both_ways(pair: Pair) -> None:
    pair.a.say(1)
    pair.b.say(2)
    pair.run(10)
    assert (pair.a.seen[-1], pair.b.seen[-1]) == ((30, "hears 2"), (30, "hears 1"))


def test_a_closed_connection_ends_at_the_other_side_after_what_was_queued(pair: Pair) -> None:
    pair.b.say(1)
    pair.b.ends[-1].close()
    pair.run(10)
    assert pair.a.heard() == ["connected b", "hears 1", "lost"]
    assert pair.b.heard() == ["connected"]


def test_who_has_closed_hears_nothing_more(pair: Pair) -> None:
    pair.a.say(1)
    pair.b.ends[-1].close()
    pair.b.ends[-1].close()
    pair.run(10)
    assert pair.b.heard() == ["connected"]


@pytest.mark.parametrize("closing", ["a", "b"])
def test_the_caller_dials_again_after_any_end(pair: Pair, closing: str) -> None:
    getattr(pair, closing).ends[-1].close()
    pair.run(1_000)
    assert pair.connections() == 2
    assert pair.link.is_connected
    assert len(pair.link.wires()) == 2


def test_a_link_that_is_not_wanted_is_not_dialled_again(pair: Pair) -> None:
    pair.link.unwant()
    pair.b.ends[-1].close()
    pair.run(60_000)
    assert pair.connections() == 1


def test_waits_between_attempts_grow_up_to_a_limit() -> None:
    dialling, rng = Dialling(first_ms=100, longest_ms=1_000), Random(1)
    for failures, longest_us in enumerate([100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000]):
        waits = [dialling.wait_us(failures, rng) for _ in range(100)]
        assert longest_us / 2 <= min(waits) <= max(waits) <= longest_us
    assert dialling.wait_us(10_000, rng) <= 1_000_000


def test_a_node_that_is_down_is_dialled_until_it_is_up() -> None:
    pair = Pair()
    pair.b.is_up = False
    pair.run(20_000)
    assert pair.a.seen == []
    pair.b.is_up = True
    pair.run(6_000)
    assert pair.connections() == 1


def test_a_caller_that_is_down_does_not_dial() -> None:
    pair = Pair()
    pair.a.is_up = False
    pair.run(20_000)
    assert (pair.b.seen, pair.clock.pending) == ([], 0)


def test_a_loud_cut_is_told_to_both_and_loses_what_is_under_way(pair: Pair) -> None:
    pair.a.say(1)
    pair.run(5)
    pair.link.cut(loud=True)
    pair.run(10_000)
    assert pair.a.heard() == ["connected b", "lost"]
    assert pair.b.heard() == ["connected", "lost"]
    pair.link.heal()
    pair.run(6_000)
    assert pair.connections() == 2


def test_a_silent_cut_is_told_to_nobody_and_resets_the_connection_when_healed(pair: Pair) -> None:
    pair.a.say(1)
    pair.link.cut()
    pair.b.say(2)
    pair.run(10_000)
    assert (pair.a.heard(), pair.b.heard()) == (["connected b"], ["connected"])
    assert pair.link.is_connected
    pair.link.heal()
    assert (pair.a.heard()[-1], pair.b.heard()[-1]) == ("lost", "lost")
    pair.run(1_000)
    assert pair.connections() == 2


def test_a_cut_in_one_direction_leaves_the_other_one(pair: Pair) -> None:
    pair.link.cut(backward=False)
    pair.a.say(1)
    pair.b.say(2)
    pair.run(10)
    assert (pair.a.heard()[-1], pair.b.heard()[-1]) == ("hears 2", "connected")
    assert not pair.link.is_whole


def test_a_stall_delays_and_loses_nothing(pair: Pair) -> None:
    pair.a.say(1)
    pair.link.stall()
    pair.a.say(2)
    pair.run(1_000)
    assert pair.b.heard() == ["connected"]
    pair.link.heal()
    pair.run(1_000)
    assert pair.b.heard() == ["connected", "hears 1", "hears 2"]
    assert pair.connections() == 1


def test_a_loud_crash_is_told_at_once_and_a_silent_one_never(pair: Pair) -> None:
    pair.b.ends[-1].abort(loud=True)
    assert pair.a.heard()[-1] == "lost"
    pair.run(1_000)
    pair.b.is_up = False
    pair.b.ends[-1].abort(loud=False)
    pair.a.say(5)
    pair.run(60_000)
    assert pair.a.heard()[-1] == "connected b"


def test_no_word_of_a_crash_comes_through_a_cut_cable(pair: Pair) -> None:
    pair.link.cut()
    pair.b.ends[-1].abort(loud=True)
    assert pair.a.heard()[-1] == "connected b"


def test_a_host_that_is_back_resets_connections_it_does_not_know(pair: Pair) -> None:
    pair.b.ends[-1].abort(loud=False)
    pair.run(100)
    assert pair.a.heard()[-1] == "connected b"
    pair.a.say(1)
    pair.run(10)
    assert pair.a.heard()[-1] == "lost"


def test_a_link_that_is_slowed_down_keeps_the_order(pair: Pair) -> None:
    pair.link.slow_down(500_000)
    pair.a.say(1)
    pair.link.slow_down(10_000)
    pair.a.say(2)
    pair.run(400)
    assert pair.b.heard() == ["connected"]
    pair.run(200)
    assert pair.b.heard() == ["connected", "hears 1", "hears 2"]
    assert pair.link.options.latency_us == 10_000
