"""The event loop's side of the store."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import NoReturn

import pytest

from live.store.support import append, break_table, everything, numbered, opened, ticks_of
from live.support import run, until
from penstock.broker.durable import Append, KeepRecord, Trim
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.live.keeper import Keeper
from penstock.live.store import NotAStoreError, StoreFailedError, StoreLockedError
from penstock.live.store.database import FILE_NAME
from penstock.live.store.place import FolderPlace
from penstock.live.store_worker import KeptRead, LogRead
from penstock.live.stores import OnWait
from penstock.model.errors import PenstockError
from penstock.model.tick import Tick


class Listener:
    def __init__(self) -> None:
        self.committed: list[int] = []
        self.values: list[int] = []
        self.full: list[str] = []
        self.found: list[LogRead] = []
        self.kept: list[KeptRead] = []
        self.failures: list[PenstockError] = []
        self.threads: set[str] = set()

    def on_committed(self, number: int) -> None:
        self.threads.add(threading.current_thread().name)
        self.committed.append(number)

    def on_values_kept(self, number: int) -> None:
        self.values.append(number)

    def on_full(self, reason: str) -> None:
        self.full.append(reason)

    def on_read(self, found: LogRead) -> None:
        self.found.append(found)

    def on_kept_read(self, found: KeptRead) -> None:
        self.kept.append(found)

    def on_failed(self, error: PenstockError) -> None:
        self.failures.append(error)


def keeper_of(folder: Path, *, bytes_max: int | None = None) -> tuple[Keeper, Listener]:
    listener = Listener()
    return Keeper(FolderPlace(folder, "o", "b1", bytes_max, reserve_bytes=0), listener), listener


class Waiting:
    """A place whose store is never opened."""

    broker = "b1"
    shown = "nowhere"

    def __init__(self) -> None:
        self.has_ended = False

    def open(self, on_wait: OnWait) -> NoReturn:
        try:
            while True:
                on_wait("a database waits for its standby")
                time.sleep(0.01)
        finally:
            self.has_ended = True


def test_nobody_waits_for_a_store_that_only_waits() -> None:
    async def scenario() -> None:
        place, listener = Waiting(), Listener()
        keeper = Keeper(place, listener)
        opening = asyncio.create_task(keeper.open(started_ms=7))
        await until(lambda: listener.full)
        opening.cancel()
        await until(opening.done)
        assert opening.cancelled()
        await until(lambda: place.has_ended)

    run(scenario())


def messages(number: int, first: int, last: int, *, size: int = 10) -> Commit:
    return Commit(number, (Append("p", numbered(first, last, size=size)),))


@pytest.mark.parametrize("plain", [True, False], ids=["asyncio", "uvloop"])
def test_commits_become_durable_in_order_and_reads_are_answered(tmp_path: Path, plain: bool) -> None:
    async def scenario() -> None:
        keeper, listener = keeper_of(tmp_path)
        opened_ = await keeper.open(started_ms=7)
        assert (opened_.incarnation, opened_.recovered.pubends) == (7, {})
        for number in range(1, 101):
            keeper.submit(messages(number, number, number))
        assert (keeper.waiting_commits, keeper.waiting_bytes) == (100, 1_000)
        await until(lambda: listener.committed and listener.committed[-1] == 100)
        assert listener.committed == sorted(listener.committed)
        assert listener.threads == {threading.main_thread().name}
        keeper.read(ReadLog(1, "p", 50, 60, 1_000))
        await until(lambda: listener.found)
        assert [tick for tick, _ in listener.found[0].messages] == list(range(50, 61))
        keeper.submit(Commit(101, (KeepRecord("a", b"1"),)))
        await until(lambda: listener.committed[-1] == 101)
        keeper.read(ReadKept(7, ("a", "b")))
        await until(lambda: listener.kept)
        assert listener.kept == [KeptRead(7, {"a": b"1", "b": None})]
        status = keeper.status()
        assert (status["commits"], status["waiting_commits"], status["waiting_bytes"]) == (101, 0, 0)
        assert status["folder"] == str(tmp_path)
        await keeper.close()
        await keeper.close()

    run(scenario(), plain=plain)
    assert not [each for each in threading.enumerate() if each.name == "store of b1"]


def test_the_end_commits_what_waits_and_nothing_after(tmp_path: Path) -> None:
    async def scenario() -> None:
        keeper, listener = keeper_of(tmp_path)
        await keeper.open(started_ms=1)
        keeper.submit(messages(1, 1, 5))
        await keeper.close()
        assert listener.committed == [1]
        keeper.submit(messages(2, 6, 6))
        keeper.read(ReadLog(1, "p", 1, 5, 10))
        assert keeper.waiting_commits == 0

    run(scenario())
    with opened(tmp_path) as store:
        assert ticks_of(everything(store)) == [1, 2, 3, 4, 5]


def test_a_full_store_holds_nobody_up_at_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        keeper, listener = keeper_of(tmp_path, bytes_max=1 << 20)
        await keeper.open(started_ms=1)
        keeper.submit(messages(1, 1, 1, size=600_000))
        keeper.submit(messages(2, 2, 2, size=2 << 20))
        await until(lambda: listener.full)
        assert keeper.status()["full"] == 1
        # Others are still served.
        keeper.read(ReadLog(1, "p", 1, 1, 10))
        await until(lambda: listener.found)
        await keeper.close()
        assert (listener.committed, keeper.waiting_commits) == ([1], 1)

    run(scenario())


def test_a_full_store_goes_on_when_a_trim_makes_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        keeper, listener = keeper_of(tmp_path, bytes_max=1 << 20)
        await keeper.open(started_ms=1)
        keeper.submit(messages(1, 1, 1, size=600_000))
        keeper.submit(messages(2, 2, 2, size=600_000))
        await until(lambda: listener.full)
        assert listener.committed == [1]
        keeper.submit(Commit(3, (Trim("p", Tick(2)),)))
        await until(lambda: listener.committed[-1] == 3)
        assert len(listener.full) == 1
        assert keeper.status()["full"] == 0
        await keeper.close()

    run(scenario())


def test_a_store_that_is_in_use_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        keeper, _ = keeper_of(tmp_path)
        with pytest.raises(StoreLockedError):
            await keeper.open(started_ms=1)

    with opened(tmp_path):
        run(scenario())


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"something else" * 1_000)

    async def scenario() -> None:
        with pytest.raises(NotAStoreError):
            await keeper_of(tmp_path)[0].open(started_ms=1)

    run(scenario())


def test_a_failure_is_told_once_and_ends_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 1)
    break_table(tmp_path, "bodies")

    async def scenario() -> None:
        keeper, listener = keeper_of(tmp_path)
        await keeper.open(started_ms=1)
        keeper.submit(messages(1, 2, 2))
        await until(lambda: listener.failures)
        keeper.submit(messages(2, 3, 3))
        await keeper.close()
        assert len(listener.failures) == 1
        assert isinstance(listener.failures[0], StoreFailedError)
        assert str(tmp_path) in str(listener.failures[0])
        assert listener.committed == []

    run(scenario())


def test_a_bug_counts_as_a_failure_of_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        keeper, listener = keeper_of(tmp_path)
        await keeper.open(started_ms=1)
        keeper.submit(Commit(1, (Append("p", sequences={b"x": "one"}),)))  # type: ignore[dict-item]
        await until(lambda: listener.failures)
        assert isinstance(listener.failures[0], StoreFailedError)
        assert "TypeError" in str(listener.failures[0])
        await keeper.close()

    run(scenario())


def test_a_keeper_that_was_not_opened_can_be_closed(tmp_path: Path) -> None:
    run(keeper_of(tmp_path)[0].close())
