"""Machines on which matching takes time, and what is measured of them."""

from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.protocol.frames import Forward, Heartbeat, KnowledgeMessage
from penstock.sim.balancing_hosts import Machine, PoweredHost, publications_in
from penstock.sim.clock import Clock

B1 = Machine(100, 64, 0.6)


def knowledge(count: int) -> KnowledgeMessage:
    return KnowledgeMessage("p", 1, 10, list(range(1, count + 1)), [b"body"] * count)


def test_the_cost_model_is_as_stated() -> None:
    assert B1.matching_ns(118) == pytest.approx(25_000_000, rel=0.01)
    assert 1e9 / B1.matching_ns(2_000) == pytest.approx(2.4, rel=0.01)
    assert B1.bytes_s == 75_000
    assert B1.times(10) == Machine(1_000, 640, 6.0)
    assert B1.times(2).matching_ns(118) == pytest.approx(B1.matching_ns(118) / 2)
    assert B1.memory_share(1_000, 0) == pytest.approx(0.375)
    with pytest.raises(MisuseError, match="mhz -1"):
        Machine(-1, 64, 0.6)


def test_only_publications_of_applications_count() -> None:
    assert publications_in([knowledge(3), Heartbeat(), Forward("q", [1, 2], [b"", b""])]) == 5
    assert publications_in([Forward("$a", [1], [b""])]) == 0


def test_matching_takes_time_and_control_does_not() -> None:
    clock, done = Clock(), []
    host = PoweredHost(clock, B1, lambda: 118)
    host.submit([knowledge(2)], 100, lambda: done.append(("data", clock.now_us)))
    host.submit([knowledge(1)], 50, lambda: done.append(("data", clock.now_us)))
    host.submit([Heartbeat()], 10, lambda: done.append(("control", clock.now_us)))
    assert host.queued == 1
    assert host.queued_bytes == 150
    clock.run_until(1_000_000)
    assert [what for what, _ in done] == ["control", "data", "data"]
    assert done[1][1] == pytest.approx(50_000, rel=0.01)
    assert done[2][1] == pytest.approx(75_000, rel=0.01)
    assert (host.arrived, host.handled) == (3, 3)
    assert host.handled_ns / 3 == pytest.approx(25_000_000, rel=0.01)


def test_silence_costs_nothing_and_does_not_overtake_data() -> None:
    clock, done = Clock(), []
    host = PoweredHost(clock, B1, lambda: 118)
    host.submit([knowledge(0)], 50, lambda: done.append("silence before"))
    assert done == ["silence before"]
    host.submit([knowledge(1)], 100, lambda: done.append("data"))
    host.submit([Heartbeat(), knowledge(0)], 60, lambda: done.append("silence behind"))
    host.submit([Heartbeat()], 10, lambda: done.append("control"))
    clock.run_until(1_000_000)
    assert done == ["silence before", "control", "data", "silence behind"]
    assert (host.handled, host.queued_bytes) == (1, 0)
    assert clock.now_us == 1_000_000
    assert host.busy_us == pytest.approx(25_000, rel=0.01)


def test_what_is_measured() -> None:
    clock = Clock(1)
    host = PoweredHost(clock, B1, lambda: 118)
    host.figures()
    host.submit([knowledge(4)], 1_000_000, lambda: None)
    clock.run_until(50_001)
    busy = host.figures()
    assert busy.cpu == pytest.approx(1.0)
    assert busy.messages_in == 4
    assert busy.matched == 0
    assert busy.memory == pytest.approx(B1.memory_share(118, 1_000_000))
    clock.run_until(200_001)
    assert host.figures().cpu == pytest.approx(1 / 3, rel=0.02)


def test_scaled_each_subscription_costs_as_much_as_several() -> None:
    clock, done = Clock(), []
    host = PoweredHost(clock, B1, lambda: 59, scale=2.0)
    host.submit([knowledge(1)], 100, lambda: done.append(clock.now_us))
    clock.run_until(1_000_000)
    assert done[0] == pytest.approx(25_000, rel=0.01)


def test_a_crash_forgets_what_waits() -> None:
    clock = Clock()
    host = PoweredHost(clock, B1, lambda: 10)
    for _ in range(3):
        host.submit([knowledge(1)], 100, lambda: None)
    host.crash()
    assert host.queued == 0
    clock.run_until(1_000_000)
    assert host.queued_bytes == 0
    assert host.arrived == host.handled == 1, "who counts on finds that nothing waits"
