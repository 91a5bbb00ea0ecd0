"""The thread that owns the store; here it is the test's own, since all that is to be done is said before it runs."""

from __future__ import annotations

import logging
import resource
import sqlite3
from pathlib import Path
from typing import Any, TypeVar

import pytest

from live.store.kept_support import filter_record
from live.store.support import (
    DAMAGED_VALUES,
    append,
    break_table,
    everything,
    numbered,
    opened,
    sequences,
    tamper,
    ticks_of,
)
from penstock.broker.commit_queue import Committed, Full, ValuesKept
from penstock.broker.durable import KEPT_READ_BYTES_MAX, Append, Change, ForgetPublishers, KeepRecord, SetValue, Trim
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.live.backup import Backup
from penstock.live.store import ChangeRefusedError, StoreFailedError, StoreFullError, StoreLockedError
from penstock.live.store.place import FolderPlace
from penstock.live.store_worker import (
    INCARNATION,
    Ended,
    Failed,
    KeptRead,
    LogRead,
    Opened,
    Report,
    StoreFigures,
    StoreWorker,
)
from penstock.model.tick import TICK_MAX, Tick, TickRange

_Kind = TypeVar("_Kind")


class Bench:
    """A worker, and what it said."""

    def __init__(self, folder: Path, *, bytes_max: int | None = None) -> None:
        self.reports: list[Report] = []
        self.worker = StoreWorker(
            FolderPlace(folder, "o", "b1", bytes_max, reserve_bytes=0), self.on_report, retry_ms=1
        )
        self.last = self.asked = 0

    def on_report(self, report: Report) -> None:
        self.reports.append(report)
        if isinstance(report, LogRead | KeptRead):
            self.asked -= 1
            if not self.asked:
                self.worker.end()

    def commit(self, *changes: Change) -> None:
        self.last += 1
        self.worker.put(Commit(self.last, changes))

    def append(self, first: int, last: int, *, size: int = 10) -> None:
        self.commit(Append("p", numbered(first, last, size=size)))

    def read(self, first: int, last: int, *, number: int = 1, bytes_max: int = 1_000) -> None:
        self.asked += 1
        self.worker.put(ReadLog(number, "p", first, last, bytes_max))

    def read_kept(self, *names: str, number: int = 1) -> None:
        self.asked += 1
        self.worker.put(ReadKept(number, names))

    def run(self, *, started_ms: int = 5) -> None:
        if not self.asked:
            self.worker.end()
        self.worker.run(started_ms)

    def all(self, kind: type[_Kind]) -> list[_Kind]:
        return [each for each in self.reports if isinstance(each, kind)]


def test_all_commits_that_wait_share_one_sync(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for first in range(1, 100, 10):
        bench.append(first, first + 9)
    bench.run()
    assert [type(each) for each in bench.reports] == [Opened, Committed, Ended]
    assert bench.reports[1:] == [Committed(10, 10, 1_000), Ended(0)]
    figures = bench.worker.figures
    assert (figures.commits, figures.syncs, figures.messages) == (10, 1, 100)
    with opened(tmp_path) as store:
        assert ticks_of(everything(store)) == list(range(1, 101))


def test_a_publisher_that_was_forgotten_begins_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.commit(Append("p", numbered(1, 1), sequences={b"x": 9}))
    bench.commit(ForgetPublishers("p", Tick(5)))
    bench.commit(Append("p", numbered(7, 7), sequences={b"x": 2}))
    bench.run()
    assert [each.number for each in bench.all(Committed)] == [2, 3]
    with opened(tmp_path) as store:
        assert sequences(store).get(b"x") == 2


@pytest.mark.parametrize(
    ("first", "last", "bytes_max", "ticks", "complete_to"),
    [
        (1, 30, 1_000, range(1, 21), TICK_MAX),
        (1, 15, 1_000, range(1, 16), 15),
        (3, 30, 50, range(3, 8), 7),
        (3, 30, 1, range(3, 4), 3),
        (25, 40, 100, (), TICK_MAX),
    ],
)
def test_a_read_says_how_far_it_goes(
    tmp_path: Path, first: int, last: int, bytes_max: int, ticks: range, complete_to: int
) -> None:
    bench = Bench(tmp_path)
    bench.append(1, 10)
    bench.append(11, 20)
    bench.read(first, last, bytes_max=bytes_max)
    bench.run()
    (found,) = bench.all(LogRead)
    assert [tick for tick, _ in found.messages] == list(ticks)
    assert (found.last, found.damaged) == (complete_to, None)


def test_a_damaged_record_is_named_once_and_what_lies_around_it_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        for first in (1, 11, 21):
            append(store, first, first + 5)
        store.commit([SetValue("v", b"x")])
    tamper(tmp_path, "UPDATE bodies SET stored=zeroblob(length(stored)) WHERE place=2")
    tamper(tmp_path, DAMAGED_VALUES)
    bench = Bench(tmp_path)
    for first in (1, 8, 13, 17):
        bench.read(first, 26)
    with caplog.at_level(logging.WARNING, logger="penstock"):
        bench.run()
    ranges = [(ticks_of(each.messages), each.last, each.damaged) for each in bench.all(LogRead)]  # type: ignore[arg-type]
    assert ranges == [
        ([1, 2, 3, 4, 5, 6], 10, (11, 16)),
        ([], 10, (11, 16)),
        ([], 12, (13, 16)),
        ([21, 22, 23, 24, 25, 26], TICK_MAX, None),
    ]
    assert [record.message for record in caplog.records] == ["store-value-damaged", "store-record-damaged"]
    assert bench.worker.figures.damaged_records == 1


def test_kept_records_are_read_in_turn_with_all_other_reads(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append(1, 3)
    bench.commit(KeepRecord("a", b"1"), KeepRecord("b", b"2"))
    bench.read_kept("b", "x", "a", number=1)
    bench.read(1, 3, number=2)
    bench.read_kept("a", number=3)
    bench.run()
    assert [each.number for each in bench.reports if isinstance(each, LogRead | KeptRead)] == [1, 2, 3]
    values = [list(each.values.items()) for each in bench.all(KeptRead)]
    assert values == [[("b", b"2"), ("x", None), ("a", b"1")], [("a", b"1")]]
    assert bench.worker.figures.reads == 3


def test_an_answer_with_kept_records_is_bounded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.commit(*(KeepRecord(name, bytes(KEPT_READ_BYTES_MAX // 2)) for name in "abc"))
    bench.read_kept("a", "b", "c")
    bench.run()
    assert [list(each.values) for each in bench.all(KeptRead)] == [["a", "b"]]


def test_damaged_kept_records_are_named_once_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    closed = filter_record(1)
    with opened(tmp_path) as store:
        store.commit([KeepRecord("a", b"1"), KeepRecord("b", b"2"), closed])
    tamper(tmp_path, "UPDATE kept_bodies SET stored=x'00' WHERE place<>2")
    bench = Bench(tmp_path)
    bench.read_kept("a", "b", closed.name)
    with caplog.at_level(logging.WARNING, logger="penstock"):
        bench.run()
    kept = bench.all(Opened)[0].recovered.kept
    # That the body of a filter is damaged shows when it is read.
    assert (kept["a"], kept["b"], len(kept[closed.name]) > 0) == (b"", b"2", True)
    assert bench.all(KeptRead) == [KeptRead(1, {"a": None, "b": b"2", closed.name: None})]
    assert [record.message for record in caplog.records] == ["store-kept-damaged"] * 2
    assert (bench.worker.figures.damaged_kept, bench.worker.figures.kept_put_aside) == (2, 0)


def test_kept_records_that_are_put_aside_do_not_hinder_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        store.commit([KeepRecord("a", b"1")])
    tamper(tmp_path, "DELETE FROM kept")
    bench = Bench(tmp_path)
    bench.commit(KeepRecord("b", b"2"))
    with caplog.at_level(logging.WARNING, logger="penstock"):
        bench.run()
    assert bench.reports[-2:] == [Committed(1, 1, 0), Ended(0)]
    assert [record.message for record in caplog.records] == ["store-kept-lost"]
    assert bench.worker.figures.kept_put_aside == 1


def test_what_was_trimmed_meanwhile_does_not_look_like_silence(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append(1, 20)
    bench.commit(Trim("p", Tick(8)))
    for first, last in ((3, 20), (3, 5), (8, 20)):
        bench.read(first, last)
    bench.run()
    found = [(len(each.messages), each.last, each.damaged) for each in bench.all(LogRead)]
    assert found == [(0, 2, TickRange(Tick(3), Tick(7))), (0, 2, TickRange(Tick(3), Tick(5))), (13, TICK_MAX, None)]


def filled(folder: Path, *, bytes_max: int) -> int:
    """A store with so little room that the next large message does not fit; gives the next tick."""
    bench = Bench(folder, bytes_max=bytes_max)
    for tick in range(1, 200):
        bench.append(tick, tick, size=20_000)
    bench.worker.end()
    bench.worker.run(1)
    last = bench.all(Committed)[-1].number if bench.all(Committed) else 0
    assert bench.all(Full)
    return last + 1


def test_a_full_store_is_said_once_and_left_in_order(tmp_path: Path) -> None:
    tick = filled(tmp_path, bytes_max=1 << 20)
    bench = Bench(tmp_path, bytes_max=1 << 20)
    bench.append(tick, tick, size=200_000)
    bench.append(tick + 1, tick + 1)
    bench.run()
    assert [type(each) for each in bench.reports] == [Opened, Full, Ended]
    assert "is full" in bench.all(Full)[0].reason
    assert bench.reports[-1] == Ended(2)
    assert bench.worker.figures.full_reason


def test_a_trim_behind_makes_room_for_what_waits_before_it(tmp_path: Path) -> None:
    tick = filled(tmp_path, bytes_max=1 << 20)
    bench = Bench(tmp_path, bytes_max=1 << 20)
    bench.append(tick, tick, size=200_000)
    # It reaches beyond a message that waits: what was not appended yet must not be refused for that.
    bench.commit(Trim("p", Tick(tick + 1)))
    bench.append(tick + 2, tick + 2)
    bench.run()
    assert bench.all(Full) == []
    assert bench.all(Committed)[-1].number == 3
    assert bench.reports[-1] == Ended(0)
    assert bench.worker.figures.full_reason == ""
    with opened(tmp_path) as store:
        assert ticks_of(everything(store)) == [tick + 2]


def test_named_values_go_ahead_of_messages_that_wait_for_space(tmp_path: Path) -> None:
    """Also new ones, in a store that is full to the last page: claims of durable names are such values."""
    tick = filled(tmp_path, bytes_max=1 << 20)
    bench = Bench(tmp_path, bytes_max=1 << 20)
    bench.append(tick, tick, size=200_000)
    names = [f"durable/p/{number}" for number in range(300)]
    bench.commit(*(SetValue(name, bytes(200)) for name in names))
    bench.commit(SetValue(names[0], b"newer"))
    bench.run()
    assert [each.number for each in bench.all(ValuesKept)] == [3]
    assert bench.all(Committed) == []
    assert bench.reports[-1] == Ended(3), "the messages are where they were"
    with opened(tmp_path) as store:
        assert store.value(names[0]) == b"newer"
        assert store.value(names[-1]) == bytes(200)


class Patient(Bench):
    """Trims when it hears that there is no space, and ends when all is done."""

    trims_below = 0

    def on_report(self, report: Report) -> None:
        super().on_report(report)
        if isinstance(report, Full):
            self.commit(Trim("p", Tick(self.trims_below)))
        elif isinstance(report, Committed) and report.number == self.last:
            self.worker.end()


class Renewing(Patient):
    """Sets a value anew when it hears that the first one went ahead."""

    def on_report(self, report: Report) -> None:
        if isinstance(report, ValuesKept) and report.number == 2:
            self.commit(SetValue("n", b"new"))
        super().on_report(report)


def test_a_value_that_went_ahead_never_replaces_a_newer_one(tmp_path: Path) -> None:
    bench = Renewing(tmp_path, bytes_max=1 << 20)
    bench.trims_below = filled(tmp_path, bytes_max=1 << 20)
    bench.append(1_000, 1_000, size=200_000)
    bench.commit(SetValue("n", b"old"))
    bench.worker.run(1)
    assert bench.all(Committed)[-1].number == bench.last
    with opened(tmp_path) as store:
        assert store.value("n") == b"new"
        assert ticks_of(everything(store, bytes_max=10**6)) == [1_000]


def test_a_full_store_is_tried_again_until_there_is_space(tmp_path: Path) -> None:
    bench = Patient(tmp_path, bytes_max=1 << 20)
    bench.trims_below = filled(tmp_path, bytes_max=1 << 20)
    bench.append(1_000, 1_000, size=200_000)
    bench.append(1_001, 1_001)
    bench.worker.run(1)
    assert [type(each) for each in bench.reports][1] is Full
    assert [each.number for each in bench.all(Committed)] == [1, 3]
    with opened(tmp_path) as store:
        assert ticks_of(everything(store, bytes_max=10**6)) == [1_000, 1_001]


@pytest.mark.parametrize("kind", [StoreFailedError, ChangeRefusedError])
def test_any_other_failure_ends_it(tmp_path: Path, kind: type[Exception]) -> None:
    with opened(tmp_path) as store:
        append(store, 10, 10)
    if kind is StoreFailedError:
        break_table(tmp_path, "bodies")
    bench = Bench(tmp_path)
    bench.append(1 if kind is ChangeRefusedError else 11, 11)
    bench.append(12, 12)
    bench.run()
    assert [type(each) for each in bench.reports] == [Opened, Failed, Ended]
    assert isinstance(bench.all(Failed)[0].error, kind)
    assert bench.reports[-1] == Ended(2)


def test_a_store_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with opened(tmp_path):
        bench.run()
    assert [type(each) for each in bench.reports] == [Failed, Ended]
    assert isinstance(bench.all(Failed)[0].error, StoreLockedError)


def test_every_life_has_a_higher_number_whatever_the_clock_says(tmp_path: Path) -> None:
    found = []
    for started_ms in (100, 50, 50, 200):
        bench = Bench(tmp_path)
        bench.run(started_ms=started_ms)
        found.append(bench.all(Opened)[0].incarnation)
    assert found == [100, 101, 102, 200]
    tamper(tmp_path, DAMAGED_VALUES)
    bench = Bench(tmp_path)
    bench.run(started_ms=70)
    assert bench.all(Opened)[0].incarnation == 70
    with opened(tmp_path) as store:
        assert store.value(INCARNATION) == b"70"


def test_what_was_kept_is_found_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.commit(Append("p", numbered(1, 3), Tick(50), {b"x": 3}), SetValue("v", b"one"))
    bench.run()
    again = Bench(tmp_path)
    again.run()
    (found,) = again.all(Opened)
    assert found.recovered.pubends["p"].sequences == {b"x": 3}
    assert (found.recovered.pubends["p"].lease, found.recovered.values["v"]) == (50, b"one")
    assert not found.recovery.created
    assert again.worker.figures.file_bytes > 0


def test_a_process_without_descriptors_has_no_failed_store(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    class Exhausted(Bench):
        """Has no descriptor left from when the store is open until it has committed."""

        def on_report(self, report: Report) -> None:
            if isinstance(report, Opened):
                self.worker._files_at_ms = 0
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            super().on_report(report)

    bench = Exhausted(tmp_path)
    bench.append(1, 10)
    bench.read(1, 10)
    try:
        bench.run()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [type(each) for each in bench.reports] == [Opened, Committed, LogRead, Ended]


class Starving:
    """A database for which the system has no descriptors or memory, so many times."""

    def __init__(self, database: Any, code: int, times: int) -> None:
        self._database, self._code, self._times = database, code, times

    def execute(self, statement: str, *parameters: Any) -> Any:
        if self._times and statement.startswith(("SELECT", "BEGIN")):
            self._times -= 1
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = self._code
            raise error
        return self._database.execute(statement, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM])
def test_commits_wait_while_the_system_lacks_something(tmp_path: Path, code: int) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 10)
    bench = Bench(tmp_path)
    bench.append(11, 20)
    with opened(tmp_path) as store:
        database = store._database
        starving: Any = Starving(database, code, 3)
        bench.worker._take_in()
        store._database = starving
        while len(bench.worker._queue):
            # So late that whatever waits is tried again.
            work = bench.worker._queue.begin_next(now_ms=1 << 62)
            assert work is not None
            bench.worker._carry_out(store, work)
        store._database = database
    assert [type(each) for each in bench.reports] == [Full, Committed]
    assert "lacks descriptors or memory" in bench.all(Full)[0].reason


def test_a_read_waits_while_the_system_lacks_something(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.read(1, 20)
    with opened(tmp_path) as store:
        append(store, 1, 10)

        class Refusing:
            """Refuses the first read."""

            times = 1

            def trimmed_below(self, pubend: str) -> Tick:
                if self.times:
                    self.times -= 1
                    raise StoreFullError("store lacks descriptors or memory")
                return store.trimmed_below(pubend)

            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

        refusing: Any = Refusing()
        bench.worker._serve(refusing)
    (found,) = bench.all(LogRead)
    assert [tick for tick, _ in found.messages] == list(range(1, 11))


def test_groups_are_counted_with_their_messages() -> None:
    figures = StoreFigures()
    assert figures.as_dict()["messages_per_sync"] == 0
    figures.count([Commit(1, (Append("p", numbered(1, 3)), SetValue("v", b""))), Commit(2, ())], sync_ms=2.5)
    figures.count([Commit(3, (Append("p", numbered(4, 4)),))], sync_ms=1.5)
    assert (figures.commits, figures.syncs, figures.messages, figures.last_sync_ms) == (3, 2, 4, 1.5)
    assert (figures.as_dict()["messages_per_sync"], figures.as_dict()["full"]) == (2, 0)
    figures.full_reason = "no space"
    assert figures.as_dict()["full"] == 1


# Backups.


def backup_into(path: Path) -> Backup:
    (path / "copy").mkdir()
    return Backup(path / "copy")


def test_a_backup_has_what_was_committed_while_it_was_made(tmp_path: Path) -> None:
    class Busy(Bench):
        """Commits and reads some more whenever something was done, while the backup is under way."""

        backup = backup_into(tmp_path)

        def on_report(self, report: Report) -> None:
            super().on_report(report)
            if isinstance(report, Committed) and not self.backup.is_over:
                self.append(self.last * 10 + 1, self.last * 10 + 10)
            elif self.backup.is_over:
                self.worker.end()

    with opened(tmp_path / "store") as store:
        for tick in range(1, 10):
            append(store, tick, tick, size=1 << 20)
    bench = Busy(tmp_path / "store")
    bench.last = 10
    bench.append(101, 110)
    bench.worker.put(bench.backup)
    bench.worker.run(5)
    assert (bench.backup.state, bench.backup.reason) == ("done", "")
    assert bench.backup.pages_done == bench.backup.pages_total > 2_000
    with opened(tmp_path / "store") as store, opened(tmp_path / "copy") as copy:
        theirs = ticks_of(everything(copy, bytes_max=1 << 24))
        ours = ticks_of(everything(store, bytes_max=1 << 24))
        assert len(theirs) > 40
        assert theirs == ours[: len(theirs)]
        assert copy.value(INCARNATION) == b"5"


def test_a_backup_ends_with_the_broker_and_leaves_nothing(tmp_path: Path) -> None:
    class Stopping(Bench):
        """Is told to end in the middle of the backup."""

        def on_report(self, report: Report) -> None:
            super().on_report(report)
            if isinstance(report, Committed):
                self.worker.end()

    with opened(tmp_path / "store") as store:
        append(store, 1, 9, size=1 << 20)
    bench = Stopping(tmp_path / "store")
    first = backup_into(tmp_path)
    second = Backup(tmp_path / "elsewhere")
    bench.worker.put(first)
    bench.worker.put(second)
    bench.append(11, 20)
    bench.worker.run(5)
    assert [(each.state, each.reason) for each in (first, second)] == [("failed", "the broker stops")] * 2
    assert list((tmp_path / "copy").iterdir()) == []
    assert [type(each) for each in bench.reports] == [Opened, Committed, Ended]


def test_a_backup_that_fails_does_no_harm(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store")

    class Last(Backup):
        """The worker ends with it."""

        def fail(self, reason: str) -> None:
            super().fail(reason)
            bench.worker.end()

    cancelled = backup_into(tmp_path)
    cancelled.is_cancelled = True
    last = Last(tmp_path / "nowhere")
    bench.append(1, 1_000, size=1_000)
    bench.worker.put(cancelled)
    bench.worker.put(last)
    bench.worker.run(5)
    assert (cancelled.state, cancelled.reason) == ("failed", "it was cancelled")
    assert last.reason.endswith("cannot be made: No such file or directory")
    assert [type(each) for each in bench.reports] == [Opened, Committed, Ended]
    with opened(tmp_path / "store") as store:
        assert ticks_of(everything(store, bytes_max=1 << 24)) == list(range(1, 1_001))
