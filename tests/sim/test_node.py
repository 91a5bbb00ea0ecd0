"""The shell of a broker brings stimuli, carries out effects and rings at deadlines; it decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from penstock.balancing.metrics import HostFigures
from penstock.broker.durable import Append, KeepRecord, Recovered, SetValue
from penstock.broker.effects import Close, Commit, Effect, ReadKept, ReadLog, Record, Wake
from penstock.broker.mechanisms.operating import Operation
from penstock.broker.outbox import Outbox
from penstock.broker.settings import BrokerSettings
from penstock.model import MisuseError
from penstock.model.tick import TICK_MAX, Tick, TickRange
from penstock.protocol.frames import Frame, Goodbye, Heartbeat
from penstock.protocol.status import BrokerStatus
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.link import Link
from penstock.sim.node import SimBroker
from penstock.sim.trace import Trace


class Core:
    """A stand-in for the broker that says what it is told to."""

    def __init__(self, settings: BrokerSettings, *, incarnation: int, rng: Random, recovered: Recovered) -> None:
        self.recovered, self.counts = recovered, {"turns": 1}
        self.name, self.incarnation, self.first_chance = settings.name, incarnation, rng.random()
        self.stimuli: list[tuple[Any, ...]] = []
        self.outboxes: dict[int, Outbox] = {}
        self.deadline_ms: int | None = None
        self.answer: list[Effect] = []
        self.is_sound = True

    def knows(self, connection: int) -> bool:
        return True

    def connect(
        self,
        connection: int,
        *,
        now_ms: int,
        dialled: str = "",
        certificate: str = "",
        source: str = "",
        is_movable: bool = True,
    ) -> list[Effect]:
        self.outboxes[connection] = Outbox(control_bytes_max=1 << 20, data_bytes_max=1 << 20)
        return self.asked_for("connect", connection, dialled, now_ms)

    def receive(self, connection: int, frames: list[Frame], *, now_ms: int) -> list[Effect]:
        return self.asked_for("receive", connection, frames, now_ms)

    def hear(self, connection: int, frames: list[Frame], *, now_ms: int) -> None:
        raise AssertionError("in virtual time every batch is a turn of its own")

    def finish(self, *, now_ms: int) -> list[Effect]:
        raise AssertionError("in virtual time every batch is a turn of its own")

    def progress(self, connection: int, unfinished_bytes: int, *, now_ms: int) -> None:
        raise AssertionError("in virtual time frames arrive whole")

    def disconnect(self, connection: int, *, now_ms: int) -> list[Effect]:
        return self.asked_for("disconnect", connection, now_ms)

    def committed(self, number: int, *, now_ms: int, values_only: bool = False) -> list[Effect]:
        return self.asked_for("committed", number, now_ms)

    def log_full(self, reason: str, *, now_ms: int) -> list[Effect]:
        return self.asked_for("full", now_ms)

    def log_read(
        self,
        number: int,
        messages: list[tuple[int, bytes]],
        last: int,
        *,
        now_ms: int,
        damaged: TickRange | None = None,
    ) -> list[Effect]:
        return self.asked_for("read", number, messages, last, damaged, now_ms)

    def kept_read(self, number: int, values: dict[str, bytes | None], *, now_ms: int) -> list[Effect]:
        return self.asked_for("kept", number, values, now_ms)

    def apply(self, settings: BrokerSettings, *, now_ms: int) -> list[Effect]:
        return self.asked_for("apply", settings.neighbours, now_ms)

    def operate(self, operation: Operation, *, now_ms: int) -> list[Effect]:
        return self.asked_for("operate", operation, now_ms)

    def measured(self, figures: HostFigures, *, now_ms: int) -> list[Effect]:
        return self.asked_for("measured", figures, now_ms)

    def operated(self, fence: str, *, now_ms: int) -> list[Effect]:
        return []

    def retire(self, names: Sequence[str], *, now_ms: int) -> list[Effect]:
        return []

    def next_deadline(self) -> int | None:
        return self.deadline_ms

    def may_be_due_before(self, time_ms: int) -> bool:
        return self.deadline_ms is not None and self.deadline_ms < time_ms

    def on_deadline(self, *, now_ms: int) -> list[Effect]:
        return self.asked_for("deadline", now_ms)

    def outbox(self, connection: int) -> Outbox:
        return self.outboxes[connection]

    def shutdown(self, *, now_ms: int) -> list[Effect]:
        for outbox in self.outboxes.values():
            outbox.push_control(Goodbye("shutdown", ""))
        return [Close(connection, "shutdown", "") for connection in self.outboxes]

    def status(self) -> BrokerStatus:
        return BrokerStatus("b1", counts=dict(self.counts))

    def check_invariants(self) -> None:
        assert self.is_sound, "not sound"

    def asked_for(self, *stimulus: Any) -> list[Effect]:
        self.stimuli.append(stimulus)
        answer, self.answer = self.answer, []
        return answer


class Pair:
    """Two shells and a link of one millisecond."""

    def __init__(self) -> None:
        self.clock, self.trace = Clock(), Trace()
        self.a, self.b = self.node("a"), self.node("b")
        self.link = Link(self.clock, Random(1), self.a, self.b)
        self.link.want()
        self.clock.run_for(2_000)

    def node(self, name: str) -> SimBroker:
        settings = BrokerSettings(name)
        host = Host(self.clock)
        return SimBroker(settings, Core, seed="1", clock=self.clock, trace=self.trace, host=host, checks=True)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def core(node: SimBroker) -> Core:
    assert isinstance(node.core, Core)
    return node.core


def test_both_sides_hear_of_a_connection_and_who_dialled(pair: Pair) -> None:
    assert core(pair.a).stimuli == [("connect", 1, "b", 2)]
    assert core(pair.b).stimuli == [("connect", 1, "", 2)]
    assert pair.a.connections == 1


def test_frames_go_when_the_broker_wakes_the_connection(pair: Pair) -> None:
    sender = core(pair.a)
    sender.outboxes[1].push_control(Heartbeat(1))
    pair.clock.run_for(5_000)
    assert len(core(pair.b).stimuli) == 1
    sender.deadline_ms, sender.answer = 8, [Wake(1), Wake(99)]
    pair.a.on_frames(next(iter(pair.a._ends.values())), [Heartbeat(0)])
    pair.clock.run_for(1_000)
    assert core(pair.b).stimuli[-1] == ("receive", 1, [Heartbeat(1)], 8)


def test_a_closed_connection_sends_what_it_holds_and_is_not_heard_of_again(pair: Pair) -> None:
    closing = core(pair.a)
    closing.outboxes[1].push_control(Heartbeat(1))
    closing.answer = [Close(1, "code", "reason"), Wake(1)]
    pair.a.on_frames(next(iter(pair.a._ends.values())), [Heartbeat(0)])
    pair.link.unwant()
    pair.clock.run_for(10_000)
    assert [stimulus[0] for stimulus in core(pair.b).stimuli] == ["connect", "receive", "disconnect"]
    assert [stimulus[0] for stimulus in closing.stimuli] == ["connect", "receive"]
    assert any("closes 1: code reason" in line for line in pair.trace.lines())


def test_records_are_traced(pair: Pair) -> None:
    core(pair.a).answer = [Record("link-up", (("neighbour", "b"), ("cost", 3))), Record("plain")]
    pair.a.on_frames(next(iter(pair.a._ends.values())), [Heartbeat(0)])
    assert [line.split(maxsplit=2)[2] for line in pair.trace.lines()[-2:]] == ["link-up neighbour=b cost=3", "plain"]


def test_deadlines_ring_at_their_millisecond_also_after_they_were_moved(pair: Pair) -> None:
    one = core(pair.a)

    def set_deadline(due_ms: int | None) -> None:
        one.deadline_ms = due_ms
        pair.a.on_frames(next(iter(pair.a._ends.values())), [Heartbeat(0)])

    def rung() -> list[int]:
        return [stimulus[1] for stimulus in one.stimuli if stimulus[0] == "deadline"]

    set_deadline(50)
    set_deadline(20)
    pair.clock.run_until(20_000)
    assert rung() == [20]
    # Looked at again a millisecond later, it is found to have moved.
    set_deadline(60)
    pair.clock.run_until(59_999)
    assert rung() == [20]
    pair.clock.run_until(60_000)
    assert rung() == [20, 60]
    set_deadline(None)
    pair.clock.run_until(1_000_000)
    assert rung() == [20, 60]


def test_a_deadline_that_stays_in_the_past_does_not_stop_time(pair: Pair) -> None:
    core(pair.a).deadline_ms = 0
    pair.a.on_frames(next(iter(pair.a._ends.values())), [Heartbeat(0)])
    pair.clock.run_for(10_000)
    assert sum(stimulus[0] == "deadline" for stimulus in core(pair.a).stimuli) == 11


def test_a_crash_loses_everything_and_a_new_life_has_a_larger_incarnation(pair: Pair) -> None:
    former = core(pair.b)
    pair.b.crash(loud=True)
    assert not pair.b.is_up
    with pytest.raises(MisuseError, match="is down"):
        _ = pair.b.core
    pair.b.start()
    assert (core(pair.b).incarnation, pair.b.connections) == (2, 0)
    assert core(pair.b).first_chance != former.first_chance
    assert core(pair.a).stimuli[-1] == ("disconnect", 1, 2)
    pair.clock.run_for(1_000_000)
    assert core(pair.b).stimuli[0][:2] == ("connect", 2)


def test_stopping_sends_the_goodbyes(pair: Pair) -> None:
    pair.b.stop()
    pair.clock.run_for(1_000)
    assert core(pair.a).stimuli[1:] == [("receive", 1, [Goodbye("shutdown", "")], 3), ("disconnect", 1, 3)]


def test_what_is_up_cannot_start_and_what_is_down_cannot_end(pair: Pair) -> None:
    with pytest.raises(MisuseError, match="b is up already"):
        pair.b.start()
    pair.b.crash(loud=False)
    with pytest.raises(MisuseError, match="b is down already"):
        pair.b.crash(loud=False)
    with pytest.raises(MisuseError, match="b is down"):
        pair.b.stop()


def test_with_checks_every_step_looks_at_the_invariants(pair: Pair) -> None:
    core(pair.a).is_sound = False
    with pytest.raises(AssertionError, match="not sound"):
        pair.a.on_frames(next(iter(pair.a._ends.values())), [Heartbeat(0)])


def tell(node: SimBroker, *effects: Effect) -> None:
    core(node).answer = list(effects)
    node.on_frames(next(iter(node._ends.values())), [Heartbeat(0)])


def append(number: int, tick: int) -> Commit:
    return Commit(number, (Append("p", ((Tick(tick), b"body"),)),))


def test_commits_and_reads_come_back_in_virtual_time(pair: Pair) -> None:
    tell(pair.a, append(1, 7), Commit(2, (SetValue("x", b"1"), KeepRecord("mark", b"m"))))
    pair.clock.run_for(2_000)
    tell(pair.a, ReadLog(9, "p", 0, 10, 100))
    pair.clock.run_for(2_500)
    # The first sync begins with the first commit alone, and the read waits for the second.
    assert [stimulus for stimulus in core(pair.a).stimuli if stimulus[0] in {"committed", "read"}] == [
        ("committed", 1, 4),
        ("committed", 2, 6),
        ("read", 9, [(7, b"body")], TICK_MAX, None, 6),
    ]
    tell(pair.a, ReadKept(3, ("mark", "gap")))
    pair.clock.run_for(1_000)
    assert core(pair.a).stimuli[-1] == ("kept", 3, {"mark": b"m", "gap": None}, 7)
    assert pair.trace.lines()[-1].endswith("reads 3, 1 of 2 records")


def test_a_new_life_finds_what_was_durable_and_only_that(pair: Pair) -> None:
    tell(pair.b, append(1, 7))
    pair.clock.run_for(2_000)
    tell(pair.b, append(2, 8), append(3, 9))
    pair.b.crash(loud=True)
    pair.b.start()
    # The sync of the second was under way and may have succeeded; that of the third had not begun.
    assert core(pair.b).recovered.pubends["p"].last_tick in {7, 8}
    pair.clock.run_for(10_000)
    assert [stimulus for stimulus in core(pair.b).stimuli if stimulus[0] == "committed"] == []


def test_an_orderly_end_makes_everything_durable(pair: Pair) -> None:
    tell(pair.b, append(1, 7), append(2, 8))
    pair.b.stop()
    pair.b.start()
    assert core(pair.b).recovered.pubends["p"].last_tick == 8


def test_a_full_device_is_told_once(pair: Pair) -> None:
    pair.a.device.is_full = True
    tell(pair.a, append(1, 7))
    pair.clock.run_for(3_500_000)
    pair.a.device.is_full = False
    pair.clock.run_for(1_000_000)
    assert [stimulus[0] for stimulus in core(pair.a).stimuli[-2:]] == ["full", "committed"]


def test_the_wall_clock_may_be_wrong_but_steps_only_between_lives(pair: Pair) -> None:
    pair.b.clock_offset_ms = -1
    tell(pair.b)
    assert core(pair.b).stimuli[-1][-1] == 2
    pair.b.crash(loud=True)
    pair.b.start()
    core(pair.b).deadline_ms = pair.clock.now_ms + 999
    pair.clock.run_for(900_000)
    tell(pair.b)
    assert core(pair.b).stimuli[-1][-1] == 901
    pair.clock.run_for(100_001)
    # Its deadline is in its own time.
    assert core(pair.b).stimuli[-1] == ("deadline", 1_001)


def test_what_was_counted_is_summed_up_over_all_lives(pair: Pair) -> None:
    pair.b.crash(loud=True)
    assert pair.b.counts() == {"turns": 1}
    pair.b.start()
    core(pair.b).counts["turns"] = 5
    assert (pair.b.counts(), pair.b.counts_of_lives) == ({"turns": 6}, {"turns": 1})


def test_new_settings_reach_a_broker_that_is_up_and_one_that_is_not_when_it_starts() -> None:
    pair = Pair()
    pair.a.apply(BrokerSettings("a", neighbours=("c",)))
    core = pair.a.core
    assert isinstance(core, Core)
    assert core.stimuli[-1][:2] == ("apply", ("c",))
    pair.a.crash(loud=True)
    pair.a.apply(BrokerSettings("a", neighbours=("d",)))
    pair.a.start()
    assert pair.a.settings.neighbours == ("d",)


def test_what_the_wall_clock_showed_is_remembered_over_all_lives() -> None:
    clock = Clock(1_000_000)
    made = SimBroker(
        BrokerSettings(name="b1"),
        Core,
        seed="1",
        clock=clock,
        trace=Trace(start_us=0, output=None, lines_max=10),
        host=Host(clock),
    )
    clock.run_until(2_000_000)
    made.crash(loud=True)
    made.clock_offset_ms = 5_000
    made.start()
    clock.run_until(3_000_000)
    made.crash(loud=True)
    made.clock_offset_ms = -100
    made.start()
    assert [made.wall_ms(at_us) for at_us in (1_500_000, 2_500_000, 3_000_000)] == [1_500, 7_500, 2_900]
    assert made.wall_ms_max() == 8_000


def kinds(node: SimBroker) -> list[str]:
    return [stimulus[0] for stimulus in core(node).stimuli]


def frame_for(node: SimBroker) -> None:
    node.on_frames(next(iter(node._ends.values())), [Heartbeat(0)])


def test_a_stopped_process_handles_everything_when_it_goes_on_and_timers_last(pair: Pair) -> None:
    core(pair.b).deadline_ms = 10
    frame_for(pair.b)
    pair.b.gate.shut()
    pair.clock.run_for(20_000)
    frame_for(pair.b)
    pair.b._on_committed(1)
    assert kinds(pair.b) == ["connect", "receive"]
    core(pair.b).deadline_ms = 25
    pair.b.gate.open()
    pair.clock.run_for(2_000)
    assert kinds(pair.b) == ["connect", "receive", "receive", "committed"]
    pair.clock.run_for(1_000)
    assert kinds(pair.b)[4:] == ["deadline"]


def test_a_stopped_process_hears_of_connections_when_it_goes_on(pair: Pair) -> None:
    pair.b.gate.shut()
    pair.link.cut(loud=True)
    pair.link.heal()
    pair.clock.run_for(1_000_000)
    assert pair.link.is_connected
    pair.b.gate.open()
    assert kinds(pair.b) == ["connect", "disconnect", "connect"]
    assert pair.b.connections == 1


def test_a_connection_to_a_stopped_process_ends_with_it(pair: Pair) -> None:
    for node in (pair.a, pair.b):
        node.gate.shut()
        pair.link.cut(loud=True)
        pair.link.heal()
        pair.clock.run_for(1_000_000)
        node.crash(loud=True)
        node.start()
        pair.link.want()
        pair.clock.run_for(20_000_000)
        frame_for(pair.a)
        assert (pair.a.connections, pair.b.connections) == (1, 1)


def test_what_was_held_for_a_life_that_is_over_is_forgotten(pair: Pair) -> None:
    pair.b.gate.shut()
    frame_for(pair.b)
    pair.b.crash(loud=True)
    pair.b.start()
    assert not pair.b.gate.is_shut
    assert kinds(pair.b) == []


def test_a_broker_that_may_not_act_falls_silent_and_drops_its_connections(pair: Pair) -> None:
    pair.b.may_act = lambda: False
    pair.link.unwant()
    frame_for(pair.b)
    assert (pair.b.is_silent, pair.b.silences, pair.b.connections) == (True, 1, 0)
    assert kinds(pair.b) == ["connect"]
    pair.link.want()
    pair.clock.run_for(50_000)
    assert pair.b.connections == 0
    pair.b.crash(loud=True)
    pair.b.may_act = None
    pair.b.start()
    assert not pair.b.is_silent


def test_an_observer_hears_when_a_life_begins_and_how_it_ends(pair: Pair) -> None:
    heard: list[str] = []
    pair.b.on_life = heard.append
    pair.b.crash(loud=False)
    pair.b.start()
    pair.b.stop()
    assert heard == ["crashes silently", "", "stops"]


def test_a_stopped_process_that_is_to_end_in_order_goes_on_first(pair: Pair) -> None:
    pair.b.gate.shut()
    frame_for(pair.b)
    former = core(pair.b)
    pair.b.stop()
    assert [stimulus[0] for stimulus in former.stimuli] == ["connect", "receive"]
    assert not pair.b.is_up


def test_a_broker_in_the_process_of_another_starts_when_it_is_told_to(pair: Pair) -> None:
    host = Host(pair.clock)
    node = SimBroker(
        BrokerSettings("c"), Core, seed="1", clock=pair.clock, trace=pair.trace, host=host, gate=pair.b.gate
    )
    assert not node.is_up
    node.start(incarnation=77)
    assert core(node).incarnation == 77
