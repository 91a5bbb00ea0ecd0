"""A device makes groups of commits durable, in time, and loses what it must lose."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from penstock.broker.durable import Append, KeepRecord, SetValue, Trim
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.model.tick import TICK_MAX, Tick
from penstock.sim.clock import Clock
from penstock.sim.device import Device, DeviceUser


class Told:
    """A device, and what it said when."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = Clock()
        self.heard: list[tuple[Any, ...]] = []
        user = DeviceUser(
            lambda number: self.heard.append((self.clock.now_us, "committed", number)),
            lambda number: self.heard.append((self.clock.now_us, "values", number)),
            lambda reason: self.heard.append((self.clock.now_us, "full", reason)),
            lambda number, *found: self.heard.append((self.clock.now_us, "read", number, *found)),
            lambda number, values: self.heard.append((self.clock.now_us, "kept", number, values)),
        )
        self.device = Device(self.clock, Random(seed), user)

    def append(self, number: int) -> None:
        self.device.commit(Commit(number, (Append("p", ((Tick(number), b"body"),)),)))

    def durable(self) -> list[int]:
        return self.device.disk.ticks("p")


@pytest.fixture
def told() -> Told:
    return Told()


def test_all_that_waits_when_a_sync_begins_is_durable_when_it_ends(told: Told) -> None:
    for number in (1, 2, 3):
        told.append(number)
    told.clock.run_until(2_000)
    assert (told.heard, told.durable(), told.device.waiting) == ([(2_000, "committed", 1)], [1], 2)
    told.clock.run_until(10_000)
    assert (told.heard[1:], told.durable(), told.device.syncs) == ([(4_000, "committed", 3)], [1, 2, 3], 2)


def test_a_slow_device_takes_longer(told: Told) -> None:
    told.device.slowness = 10
    told.append(1)
    told.device.read(ReadLog(5, "p", 1, 1, 10))
    told.clock.run_until(100_000)
    assert told.heard == [(20_000, "committed", 1), (25_000, "read", 5, [(1, b"body")], TICK_MAX, None)]


def test_a_read_sees_what_is_durable_when_it_answers(told: Told) -> None:
    told.append(1)
    told.clock.run_until(1_800)
    told.device.read(ReadLog(5, "p", 0, 9, 10))
    told.clock.run_until(3_000)
    assert told.heard[-1] == (2_500, "read", 5, [(1, b"body")], TICK_MAX, None)


def test_without_space_commits_wait_and_are_tried_again(told: Told) -> None:
    told.device.is_full = True
    told.append(1)
    told.append(2)
    told.clock.run_until(3_500_000)
    assert [each[1] for each in told.heard] == ["full"]
    told.device.is_full = False
    told.clock.run_until(5_000_000)
    assert [each[1:] for each in told.heard[1:]] == [("committed", 1), ("committed", 2)]
    told.device.is_full = True
    told.append(3)
    told.clock.run_until(6_000_000)
    assert told.heard[-1][1] == "full"


def test_what_needs_no_space_is_committed_on_a_full_device(told: Told) -> None:
    told.device.is_full = True
    told.device.commit(Commit(1, (SetValue("x", b"1"), Trim("p", Tick(3)))))
    told.clock.run_until(2_000)
    assert told.heard == [(2_000, "committed", 1)]


def test_a_device_is_full_at_its_capacity(told: Told) -> None:
    told.device.capacity_bytes = 5
    told.append(1)
    told.clock.run_until(2_000)
    told.append(2)
    told.clock.run_until(4_000)
    assert [each[1] for each in told.heard] == ["committed", "full"]


def test_of_those_that_do_not_fit_together_the_first_may_fit(told: Told) -> None:
    told.device.capacity_bytes = 8
    for number in (1, 2, 3, 4):
        told.append(number)
    told.clock.run_until(100_000)
    assert [each[1:] for each in told.heard[:2]] == [("committed", 1), ("committed", 2)]
    assert (told.heard[2][1], told.durable(), told.device.waiting) == ("full", [1, 2], 2)


def test_a_trim_goes_ahead_of_what_waits_for_space_but_not_beyond_it(told: Told) -> None:
    told.device.capacity_bytes = 8
    for number in (1, 2, 3):
        told.append(number)
    told.clock.run_until(100_000)
    assert told.heard[-1][1] == "full"
    told.device.commit(Commit(4, (Trim("p", Tick(9)),)))
    told.clock.run_until(110_000)
    assert (told.heard[-1][1:], told.durable()) == (("committed", 4), [])


def test_a_crash_loses_what_waits_and_by_chance_what_is_under_way() -> None:
    outcomes = set()
    for seed in range(20):
        told = Told(seed)
        told.append(1)
        told.clock.run_until(1_000)
        told.append(2)
        told.device.read(ReadLog(1, "p", 0, 9, 10))
        told.device.crash()
        told.clock.run_until(9_000)
        assert told.heard == []
        assert (told.device.saved, told.device.torn) == (len(told.durable()), 1 - len(told.durable()))
        outcomes.add(tuple(told.durable()))
    assert outcomes == {(), (1,)}


def test_a_crash_of_a_full_device_saves_nothing() -> None:
    for seed in range(20):
        told = Told(seed)
        told.device.is_full = True
        told.append(1)
        told.device.crash()
        assert told.durable() == []


def test_an_orderly_end_makes_all_durable_and_says_nothing(told: Told) -> None:
    told.append(1)
    told.append(2)
    told.device.stop()
    told.clock.run_until(9_000)
    assert (told.heard, told.durable(), told.device.waiting) == ([], [1, 2], 0)


def test_a_crash_counts_what_no_sync_had_begun_with(told: Told) -> None:
    for number in (1, 2, 3):
        told.append(number)
    told.device.crash()
    assert (told.device.torn + told.device.saved, told.device.unsynced) == (1, 2)


def test_kept_records_are_read_in_the_order_of_the_wishes(told: Told) -> None:
    told.device.commit(Commit(1, (KeepRecord("a", b"1"),)))
    told.clock.run_until(2_000)
    told.device.read(ReadKept(1, ("a", "b")))
    told.device.read(ReadLog(2, "p", 1, 1, 10))
    told.device.read(ReadKept(3, ()))
    told.clock.run_until(100_000)
    assert told.heard[1:] == [
        (2_500, "kept", 1, {"a": b"1", "b": None}),
        (3_000, "read", 2, [], TICK_MAX, None),
        (3_500, "kept", 3, {}),
    ]


def test_an_orderly_end_answers_no_read(told: Told) -> None:
    told.device.read(ReadKept(1, ("a",)))
    told.device.read(ReadKept(2, ("a",)))
    told.append(1)
    told.device.stop()
    told.clock.run_until(9_000)
    assert (told.heard, told.durable()) == ([], [1])


def test_what_was_asked_before_a_crash_is_not_answered_after(told: Told) -> None:
    told.device.slowness = 100
    told.device.read(ReadKept(1, ("a",)))
    told.device.crash()
    told.device.slowness = 1
    told.device.read(ReadKept(2, ("a",)))
    told.clock.run_until(100_000)
    assert told.heard == [(500, "kept", 2, {"a": None})]


def test_a_full_device_takes_small_records_and_removals_but_no_large_ones(told: Told) -> None:
    told.device.commit(Commit(1, (KeepRecord("old", bytes(2_000)),)))
    told.clock.run_until(2_000)
    told.device.is_full = True
    told.device.commit(Commit(2, (KeepRecord("mark", b"1"), KeepRecord("old", None))))
    told.clock.run_until(4_000)
    told.device.commit(Commit(3, (KeepRecord("new", bytes(2_000)),)))
    told.clock.run_until(6_000)
    assert [each[1] for each in told.heard] == ["committed", "committed", "full"]
    assert told.device.disk.kept_names() == ["mark"]


def test_a_record_may_take_the_place_of_another_at_the_capacity(told: Told) -> None:
    told.device.capacity_bytes = 3_000
    told.device.commit(Commit(1, (KeepRecord("a", bytes(2_000)),)))
    told.device.commit(Commit(2, (KeepRecord("a", bytes(3_000)),)))
    told.device.commit(Commit(3, (KeepRecord("b", bytes(3_000)), KeepRecord("a", None))))
    told.device.commit(Commit(4, (KeepRecord("c", bytes(2_000)),)))
    told.clock.run_until(100_000)
    assert [each[1:2] + each[2:] for each in told.heard[:-1]][-1] == ("committed", 3)
    assert (told.heard[-1][1], told.device.disk.kept_names()) == ("full", ["b"])


def test_named_values_go_ahead_of_what_waits_for_space(told: Told) -> None:
    told.device.is_full = True
    told.append(1)
    told.device.commit(Commit(2, (SetValue("x", b"1"),)))
    told.clock.run_until(100_000)
    assert [each[1:] for each in told.heard] == [("values", 2), ("full", "there is no space left on the device")]
    assert told.device.disk.recovered().values == {"x": b"1"}
    told.device.commit(Commit(3, (SetValue("x", b"2"),)))
    told.clock.run_until(200_000)
    told.device.crash()
    assert told.device.disk.recovered().values == {"x": b"2"}
    assert told.durable() == []


def test_a_crash_keeps_or_loses_as_a_whole_what_goes_ahead() -> None:
    outcomes = set()
    for seed in range(20):
        told = Told(seed)
        told.device.is_full = True
        told.append(1)
        told.device.commit(Commit(2, (SetValue("x", b"1"), SetValue("y", b"1"))))
        # The first sync has found no space, and the values are being written.
        told.clock.run_until(3_000)
        told.device.crash()
        assert (told.heard, told.durable(), told.device.unsynced) == ([], [], 2)
        outcomes.add(tuple(told.device.disk.recovered().values))
    assert outcomes == {(), ("x", "y")}


def test_an_orderly_end_makes_durable_what_there_is_space_for(told: Told) -> None:
    told.device.capacity_bytes = 8
    for number in (1, 2, 3):
        told.append(number)
    told.device.stop()
    assert (told.heard, told.durable(), told.device.waiting) == ([], [1, 2], 0)
