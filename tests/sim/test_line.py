from __future__ import annotations

from penstock.protocol.frames import Frame, Heartbeat, Hello, Welcome
from penstock.sim.clock import Clock
from penstock.sim.line import Line
from penstock.sim.link import End
from penstock.sim.wire import Source


class FakeEnd:
    """Takes what is to be sent at once."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []

    def attach(self, source: Source) -> None:
        self._source = source

    def wake(self) -> None:
        self.sent += self._source.take(1_000_000)


def made() -> tuple[Clock, FakeEnd, Line, list[int]]:
    clock, end, silences = Clock(0), FakeEnd(), list[int]()
    assert isinstance(End, type)
    line = Line(clock, end, on_silent=lambda: silences.append(clock.now_ms))  # type: ignore[arg-type]
    return clock, end, line, silences


def test_a_connection_on_which_nothing_is_said_carries_heartbeats_once_the_broker_has_answered() -> None:
    clock, end, line, silences = made()
    line.say(Hello(1, "client", "c", ""))
    clock.run_for(1_500_000)
    line.hear()
    line.welcome = Welcome(1, "b", "o", 1, 1, 0, 200, 1)
    clock.run_for(1_000_000)
    assert end.sent[1:] == [Heartbeat(2_000), Heartbeat(2_200), Heartbeat(2_400)]
    assert silences == []


def test_a_broker_that_is_not_heard_for_five_beats_is_told_of_once() -> None:
    clock, end, _, silences = made()
    clock.run_for(20_000_000)
    assert silences == [5_000]
    assert end.sent == []


def test_a_connection_that_is_over_is_left_alone() -> None:
    clock, end, line, silences = made()
    line.is_over = True
    clock.run_for(20_000_000)
    assert (end.sent, silences) == ([], [])
