"""Hosts take their time for each batch, one after the other, in proportion to what is in it."""

from __future__ import annotations

import pytest

from penstock.model import MisuseError
from penstock.protocol.frames import Deliver, Frame, Handed, Heartbeat, Publish
from penstock.sim.clock import Clock
from penstock.sim.host import CostModel, Host


def test_a_batch_costs_its_frames_messages_and_bytes() -> None:
    cost = CostModel(frame_ns=1_000, message_ns=100, byte_ns=1)
    frames: list[Frame] = [Heartbeat(), Publish(1, [b"a", b"b", b"c"]), Deliver(0, [1], [b"\0\0\0\1"], [b"x"])]
    assert cost.batch_ns(frames, 50) == 3 * 1_000 + 5 * 100 + 50
    handed = Handed("p", "sb", b"me", (1, 1, 1, 1), [1, 2], [1, 1], [b"a", b"b"])
    assert cost.batch_ns([handed], 50) == 1_000 + 2 * 100 + 50
    assert not cost.is_free
    assert CostModel().is_free


def test_batches_are_handled_one_after_the_other() -> None:
    clock = Clock()
    host, seen = Host(clock, CostModel(frame_ns=10_000)), list[tuple[str, int]]()
    for name in "abc":
        host.submit([Heartbeat()], 256, lambda name=name: seen.append((name, clock.now_us)))  # type: ignore[misc]
    assert host.queued == 2
    clock.run_for(100)
    assert seen == [("a", 10), ("b", 20), ("c", 30)]
    assert (host.queued, host.queued_max, host.busy_us) == (0, 2, 30)


def test_a_host_of_twice_the_speed_needs_half_the_time() -> None:
    clock, seen = Clock(), list[int]()
    Host(clock, CostModel(frame_ns=10_000), speed=2.0).submit([Heartbeat()], 256, lambda: seen.append(clock.now_us))
    clock.run_for(100)
    assert seen == [5]


def test_parts_of_a_microsecond_add_up() -> None:
    clock = Clock()
    host = Host(clock, CostModel(frame_ns=300))
    for _ in range(100):
        host.submit([Heartbeat()], 256, lambda: None)
    clock.run_for(1_000)
    assert host.busy_us == 30


def test_work_that_brings_new_work_does_not_start_twice() -> None:
    clock, seen = Clock(), list[int]()
    host = Host(clock, CostModel(frame_ns=5_000))
    host.submit([Heartbeat()], 256, lambda: host.submit([Heartbeat()], 256, lambda: seen.append(clock.now_us)))
    clock.run_for(100)
    assert seen == [10]


def test_a_crash_forgets_what_waits() -> None:
    clock, seen = Clock(), list[str]()
    host = Host(clock, CostModel(frame_ns=5_000))
    host.submit([Heartbeat()], 256, lambda: seen.append("in work"))
    host.submit([Heartbeat()], 256, lambda: seen.append("waiting"))
    host.crash()
    clock.run_for(100)
    assert seen == ["in work"]


def test_costs_and_speeds_that_cannot_be_are_refused() -> None:
    with pytest.raises(MisuseError, match="byte_ns -1 is negative"):
        CostModel(byte_ns=-1)
    with pytest.raises(MisuseError, match="speed 0"):
        Host(Clock(), speed=0)


def test_input_that_waits_takes_memory_until_it_is_handled() -> None:
    clock = Clock()
    host = Host(clock, CostModel(frame_ns=5_000))
    for size in (100, 200):
        host.submit([Heartbeat()], size, lambda: None)
    assert host.queued_bytes == 300
    clock.run_for(5)
    assert host.queued_bytes == 200
    host.submit([Heartbeat()], 50, lambda: None)
    host.crash()
    clock.run_for(100)
    assert host.queued_bytes == 0


def test_a_host_without_memory_is_refused() -> None:
    with pytest.raises(MisuseError, match="memory_bytes 0 of a host is not positive"):
        Host(Clock(), memory_bytes=0)
