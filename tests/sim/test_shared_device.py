"""A home's device returns from a commit when it is durable, whatever becomes of the database, and is fenced."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from penstock.broker.durable import KeepRecord
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.model.tick import TICK_MAX
from penstock.sim.device import DeviceUser
from penstock.sim.process import Gate
from penstock.sim.shared_device import Opened, SharedDevice, StoreOf
from sim.shared import ANSWER_MS, HOME, NOBODYS, Shared, appended


class Told(Shared):
    """A database with the device of a home, and what that said."""

    def __init__(self, *, is_synchronous: bool = True) -> None:
        super().__init__(is_synchronous=is_synchronous)
        self.heard: list[Any] = []
        self.failures: list[str] = []
        self.counts: Counter[str] = Counter()
        self.gate = Gate()
        self.device = self.made(0)

    def made(self, epoch: int) -> SharedDevice:
        user = DeviceUser(
            self.heard.append,
            self.heard.append,
            self.heard.append,
            lambda number, *found: self.heard.append((number, *found)),
            lambda number, values: self.heard.append((number, values)),
        )
        return SharedDevice(
            self.database,
            StoreOf(replace(NOBODYS, epoch=epoch), "b1", ANSWER_MS),
            user,
            gate=self.gate,
            counts=self.counts,
            given_up={},
            on_failed=self.failures.append,
            rng=Random(1),
        )

    def opened(self, device: SharedDevice | None = None, *, started_ms: int = 100) -> Opened:
        found: list[Opened] = []
        (device or self.device).open(started_ms, found.append)
        self.run(3_000)
        return found[0]

    def append(self, number: int) -> None:
        self.device.commit(Commit(number, (appended(number),)))

    def ticks(self) -> list[int]:
        return self.database.content(HOME).disk.ticks("q")

    def take(self, *, life: str = "") -> None:
        """Let somebody else have the home, in a later epoch unless it is another life in the same one."""
        for server in self.database.servers:
            content = server.contents[HOME]
            content.row = replace(content.row, epoch=content.row.epoch + (not life), life=life)


@pytest.fixture
def told() -> Told:
    made = Told()
    made.opened()
    return made


def test_each_life_has_a_higher_incarnation_whatever_the_clock_says() -> None:
    told = Told()
    assert told.opened(started_ms=500).incarnation == 500
    assert told.opened(told.made(0), started_ms=40).incarnation == 501
    assert told.opened(told.made(0), started_ms=900).incarnation == 900


def test_a_life_finds_what_earlier_ones_left(told: Told) -> None:
    told.append(1)
    told.run(50)
    found = told.opened(told.made(0)).recovered
    assert found.pubends["q"].last_tick == 1


def test_commits_and_reads_are_done_in_order(told: Told) -> None:
    told.append(1)
    told.append(2)
    told.device.read(ReadLog(7, "q", 1, 9, 1_000))
    told.run(100)
    assert told.heard == [1, (7, [(1, b"message 1")], TICK_MAX, None), 2]
    assert told.ticks() == [1, 2]


def test_kept_records_are_read(told: Told) -> None:
    told.device.commit(Commit(1, (KeepRecord("name", b"value"),)))
    told.run(50)
    told.device.read(ReadKept(8, ("name", "other")))
    told.run(50)
    assert told.heard == [1, (8, {"name": b"value", "other": None})]


def test_a_commit_whose_answer_was_lost_is_found_and_not_repeated(told: Told) -> None:
    told.cut("b1", told.primary, 1)
    told.append(1)
    told.run(ANSWER_MS // 2)
    assert (told.heard, told.ticks()) == ([], [1])
    told.run(ANSWER_MS)
    told.database.paths["b1", "db1"].is_cut = [False, False]
    told.run(5_000)
    assert (told.heard, told.ticks(), told.counts["doubtful_commits_found"]) == ([1], [1], 1)


def test_a_commit_that_never_happened_is_repeated(told: Told) -> None:
    told.append(1)
    told.primary.crash(loud=True)
    told.run(500)
    told.database.promote()
    told.run(2_000)
    assert (told.heard, told.ticks(), told.counts["doubtful_commits_repeated"]) == ([1], [1], 1)


def test_a_commit_that_a_former_primary_alone_has_is_repeated_at_the_new_one(told: Told) -> None:
    former = told.primary
    former.is_replicating = False
    told.append(1)
    told.run(100)
    told.database.promote()
    former.cancel_waits()
    told.run(5_000)
    assert former.contents[HOME].disk.ticks("q") == [1]
    assert (told.heard, told.ticks()) == ([1], [1])


def test_nothing_is_acknowledged_while_a_former_primary_is_all_that_can_be_reached(told: Told) -> None:
    former = told.primary
    former.is_replicating = False
    told.append(1)
    told.run(100)
    told.database.promote()
    told.cut("b1", told.primary)
    former.crash(loud=True)
    told.database.start(former)
    told.run(10_000)
    assert (told.heard, former.contents[HOME].disk.ticks("q")) == ([], [1])


def test_what_a_former_primary_lacks_is_not_read_as_silence(told: Told) -> None:
    former = told.primary
    former.crash(loud=True)
    told.database.promote()
    told.append(1)
    told.run(500)
    promoted = told.primary
    promoted.crash(loud=True)
    told.database.start(former)
    told.device.read(ReadLog(7, "q", 1, 9, 1_000))
    told.run(3_000)
    assert (told.heard, told.counts["fewer_commits"]) == ([1], 1)
    assert (told.failures, told.device.is_over) == (["the database has lost 1 commits"], True)


def test_a_device_waits_for_a_database_that_is_not_there(told: Told) -> None:
    told.primary.crash(loud=True)
    told.device.read(ReadLog(7, "q", 1, 9, 1_000))
    told.append(1)
    told.run(60_000)
    assert (told.heard, told.failures) == ([], [])
    told.database.start(told.primary)
    told.run(1_000)
    assert told.heard == [(7, [], TICK_MAX, None), 1]


def test_a_commit_in_doubt_is_not_another_one_with_its_number(told: Told) -> None:
    told.cut("b1", told.primary, 0)
    told.append(1)
    told.run(100)
    for server in told.database.servers:
        content = server.contents[HOME]
        content.commits, content.mark = content.commits + 1, -1
    told.database.paths["b1", "db1"].is_cut = [False, False]
    told.run(5_000)
    assert (told.heard, told.ticks(), told.counts["fenced_commits"]) == ([], [], 1)


def test_a_commit_whose_wait_was_cancelled_is_proved_by_a_later_record(told: Told) -> None:
    told.primary.is_replicating = False
    told.append(1)
    told.run(50)
    told.primary.cancel_waits()
    told.run(50)
    assert (told.heard, told.ticks()) == ([], [1])
    told.primary.is_replicating = True
    told.primary.ship()
    told.run(50)
    assert (told.heard, told.ticks()) == ([1], [1])
    assert not told.counts["doubtful_commits_repeated"]


def test_a_device_whose_epoch_another_life_has_fails(told: Told) -> None:
    told.take(life="b2/1")
    told.append(1)
    told.run(50)
    assert (told.heard, told.ticks(), told.counts["fenced_commits"]) == ([], [], 1)


def test_a_device_whose_home_was_taken_fails_at_its_next_commit(told: Told) -> None:
    told.take()
    told.append(1)
    told.run(50)
    assert (told.heard, told.ticks(), len(told.failures)) == ([], [], 1)
    assert (told.device.is_over, told.counts["fenced_commits"]) == (True, 1)


def test_a_device_whose_home_was_taken_answers_no_read(told: Told) -> None:
    told.append(1)
    told.run(50)
    told.take()
    told.device.read(ReadLog(7, "q", 1, 9, 1_000))
    told.run(50)
    assert (told.heard, told.counts["fenced_reads"]) == ([1], 1)


def test_a_database_that_has_lost_commits_ends_the_device() -> None:
    told = Told(is_synchronous=False)
    told.opened()
    told.primary.is_replicating = False
    for number in (1, 2, 3):
        told.append(number)
        told.run(50)
    assert told.heard == [1, 2, 3]
    told.primary.crash(loud=True)
    told.database.promote()
    told.append(4)
    told.run(5_000)
    assert (told.heard, told.failures) == ([1, 2, 3], ["the database has lost 3 commits"])


def test_a_device_that_is_cut_off_reports_nothing_though_its_commit_may_happen(told: Told) -> None:
    told.append(1)
    told.clock.run_for(1_500)
    told.device.crash()
    told.run(100)
    assert (told.heard, told.ticks()) == ([], [1])


def test_an_orderly_end_makes_durable_what_waits(told: Told) -> None:
    ended: list[str] = []
    told.device.on_stopped = lambda: ended.append("stopped")
    told.append(1)
    told.append(2)
    told.device.stop()
    assert ended == []
    told.run(100)
    assert (told.heard, told.ticks(), ended) == ([], [1, 2], ["stopped"])


def test_a_stopped_process_hears_of_nothing(told: Told) -> None:
    told.append(1)
    told.gate.shut()
    told.run(500)
    assert (told.heard, told.ticks()) == ([], [1])
    told.gate.open()
    assert told.heard == [1]
