"""A wire brings frames in order, in the time that bandwidth and latency say, and never more than its window at once."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.outbox import Outbox
from penstock.model import MisuseError
from penstock.protocol.frames import Forward, Frame, Handed, Heartbeat
from penstock.sim.clock import Clock
from penstock.sim.host import CostModel, Host
from penstock.sim.wire import LinkOptions, Wire


class Bench:
    """An outbox, a wire, and what arrived when."""

    def __init__(self, *, host_ns: int = 0, seed: int = 1, **options: Any) -> None:
        self.clock = Clock()
        self.outbox = Outbox(control_bytes_max=1 << 30, data_bytes_max=1 << 30)
        self.arrived: list[tuple[int, Frame]] = []
        self.ended: list[int] = []
        self.batches = 0
        host = Host(self.clock, CostModel(frame_ns=host_ns))
        self.wire = Wire(
            self.clock,
            LinkOptions(**options),
            Random(seed),
            deliver=self.deliver,
            ended=lambda: self.ended.append(self.clock.now_us),
            host=host,
        )
        self.wire.attach(self.outbox)

    def deliver(self, frames: list[Frame]) -> None:
        self.batches += 1
        self.arrived += [(self.clock.now_us, frame) for frame in frames]

    def send(self, *frames: Frame) -> None:
        for frame in frames:
            if isinstance(frame, Forward | Handed):
                assert self.outbox.push_data(frame)
            else:
                self.outbox.push_control(frame)  # type: ignore[arg-type]
        self.wire.wake()

    def times(self) -> list[int]:
        return [time_us for time_us, _ in self.arrived]

    def frames(self) -> list[Frame]:
        return [frame for _, frame in self.arrived]


def data(size: int) -> Forward:
    frame = Forward("p", [1], [b""])
    return Forward("p", [1], [bytes(size - frame.size)])


def test_without_a_bandwidth_all_that_waits_arrives_together_after_the_latency() -> None:
    bench = Bench(latency_us=500)
    frames = [data(100) for _ in range(3)]
    bench.send(*frames)
    bench.clock.run_for(499)
    assert bench.arrived == []
    bench.clock.run_for(1)
    assert (bench.frames(), bench.batches) == (frames, 1)


def test_frames_occupy_the_wire_for_their_size() -> None:
    bench = Bench(latency_us=10, bandwidth=100_000)
    bench.send(data(100), data(200), data(100))
    bench.clock.run_for(10_000)
    assert bench.times() == [1_010, 3_010, 4_010]


def test_messages_of_groups_count_with_their_size() -> None:
    bench = Bench()
    handed = Handed("p", "sb", b"me", (1, 1, 1, 1), [1], [1], [bytes(5_000)])
    bench.send(handed)
    assert bench.wire.carried_bytes == handed.size > 5_000


def test_a_wire_that_was_idle_starts_at_once() -> None:
    bench = Bench(latency_us=0, bandwidth=100_000)
    bench.send(data(100))
    bench.clock.run_for(50_000)
    bench.send(data(100))
    bench.clock.run_for(50_000)
    assert bench.times() == [1_000, 51_000]


def test_parts_of_a_microsecond_are_not_given_away() -> None:
    bench = Bench(latency_us=0, bandwidth=300_000_000)
    bench.send(*[data(100) for _ in range(30_000)])
    bench.clock.run_for(100_000)
    assert bench.times()[-1] == 10_000


def test_control_overtakes_data_that_is_not_on_the_wire() -> None:
    bench = Bench(latency_us=0, bandwidth=100_000)
    first, second = data(100), data(100)
    bench.send(first, second)
    bench.send(Heartbeat(7))
    bench.clock.run_for(10_000)
    assert bench.frames() == [first, Heartbeat(7), second]
    assert bench.times() == [1_000, 3_560, 4_560]


def test_nothing_is_taken_beyond_the_window() -> None:
    bench = Bench(latency_us=1_000, window_bytes=100_000)
    bench.send(*[data(50_000) for _ in range(10)])
    # A batch may exceed the window, as a frame cannot be split.
    assert bench.wire.in_flight_bytes == 100_000
    bench.clock.run_for(999)
    assert bench.outbox.data_bytes == 400_000
    bench.clock.run_for(5_000)
    assert bench.times() == [1_000] * 2 + [2_000] * 2 + [3_000] * 2 + [4_000] * 2 + [5_000] * 2
    assert bench.wire.in_flight_bytes == 0


def test_a_window_that_opens_while_the_wire_is_busy_does_not_hurry_it() -> None:
    bench = Bench(latency_us=0, bandwidth=100_000, window_bytes=150)
    bench.send(*[data(100) for _ in range(6)])
    bench.clock.run_for(100_000)
    assert bench.times() == [1_000, 2_000, 3_000, 4_000, 5_000, 6_000]


def test_what_a_busy_host_has_not_handled_still_fills_the_window() -> None:
    bench = Bench(latency_us=0, window_bytes=100_000, host_ns=1_000_000)
    bench.send(*[data(100_000) for _ in range(3)])
    bench.clock.run_for(500)
    assert (bench.wire.in_flight_bytes, bench.outbox.data_bytes) == (100_000, 200_000)
    bench.clock.run_for(10_000)
    assert bench.times() == [1_000, 2_000, 3_000]


def test_lost_are_only_data_frames_in_about_their_share() -> None:
    bench = Bench(latency_us=0, loss=0.25)
    for number in range(2_000):
        bench.send(data(100), Heartbeat(number))
    bench.clock.run_for(10)
    kept = [frame for frame in bench.frames() if isinstance(frame, Forward)]
    assert len(bench.arrived) - len(kept) == 2_000
    assert len(kept) + bench.wire.lost_frames == 2_000
    assert 400 < bench.wire.lost_frames < 600
    assert bench.wire.in_flight_bytes == 0


def test_a_batch_of_which_nothing_is_left_is_not_delivered() -> None:
    bench = Bench(loss=1.0)
    bench.send(data(100))
    bench.clock.run_for(10_000)
    assert (bench.batches, bench.wire.lost_frames) == (0, 1)


def test_jitter_varies_the_latency_and_keeps_the_order() -> None:
    bench = Bench(latency_us=1_000, jitter_us=500)
    frames = []
    for _ in range(200):
        frames.append(data(100))
        bench.send(frames[-1])
        bench.clock.run_for(100)
    bench.clock.run_for(10_000)
    assert bench.frames() == frames
    delays = [time_us - 100 * place for place, time_us in enumerate(bench.times())]
    assert min(delays) >= 1_000
    assert max(delays) <= 1_500
    assert len(set(delays)) > 50


def test_the_end_comes_after_all_that_waited() -> None:
    bench = Bench(latency_us=10, bandwidth=100_000)
    bench.send(data(100), data(100))
    bench.wire.end()
    bench.clock.run_for(10_000)
    assert (bench.times(), bench.ended) == ([1_010, 2_010], [2_010])
    bench.send(data(100))
    bench.clock.run_for(10_000)
    assert len(bench.arrived) == 2


def test_a_dead_wire_loses_what_is_under_way_and_brings_nothing_more() -> None:
    bench = Bench(latency_us=100)
    bench.send(data(100))
    bench.wire.kill()
    bench.wire.end()
    bench.wire.resume()
    bench.send(data(100))
    bench.clock.run_for(10_000)
    assert (bench.arrived, bench.ended, bench.wire.is_dead) == ([], [], True)


def test_work_for_a_wire_that_died_meanwhile_is_dropped() -> None:
    bench = Bench(latency_us=0, host_ns=1_000_000)
    bench.send(data(100))
    bench.clock.run_for(500)
    bench.wire.kill()
    bench.clock.run_for(10_000)
    assert bench.arrived == []


def test_what_is_held_arrives_after_resuming_in_order() -> None:
    bench = Bench(latency_us=100)
    first, second, third = data(100), data(100), data(100)
    bench.send(first)
    bench.clock.run_for(50)
    bench.send(second)
    bench.wire.hold()
    bench.wire.hold()
    bench.send(third)
    bench.clock.run_for(1_000)
    assert bench.arrived == []
    bench.wire.resume()
    bench.clock.run_for(1_000)
    assert bench.frames() == [first, second, third]
    assert bench.times() == [1_150] * 3
    bench.wire.check_invariants()


@given(st.lists(st.tuples(st.sampled_from("sswwhrc"), st.integers(1, 3_000)), max_size=40), st.booleans())
def test_every_frame_arrives_once_and_in_order_however_it_is_held_up(
    acts: list[tuple[str, int]],
    limited: bool,
) -> None:
    bench = Bench(latency_us=700, jitter_us=300, bandwidth=200_000 if limited else None, window_bytes=2_000)
    sent: list[Frame] = []
    for act, amount in acts:
        if act == "s":
            sent.append(data(amount + 50))
            bench.send(sent[-1])
        elif act == "w":
            bench.clock.run_for(amount)
        elif act == "h":
            bench.wire.hold()
        elif act == "r":
            bench.wire.resume()
        bench.wire.check_invariants()
    bench.wire.resume()
    bench.clock.run_for(10_000_000)
    assert bench.frames() == sent
    assert bench.wire.in_flight_bytes == 0
    assert bench.clock.pending == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"latency_us": -1}, "latency -1"),
        ({"bandwidth": 0}, "bandwidth 0 is not positive"),
        ({"loss": 1.5}, "loss 1.5 is no probability"),
        ({"window_bytes": 0}, "window_bytes 0 is not positive"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        LinkOptions(**options)
