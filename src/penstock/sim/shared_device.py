"""The device of a home whose disk is in a shared database: commits and reads are transactions, fenced by the epoch.

It keeps the law of stores (``live.stores``), by the rules of ``live.postgres.fenced``. A commit whose connection was
lost is in doubt: the device connects again, to whichever server is the primary now, asks how many commits there were
and which was the latest, and repeats the commit if it is not that one. A commit that is there, but may not have reached
the standby, is proved by a later record that has. Before that the device does not return.

A device that finds another epoch, or fewer commits than it has made, has failed, and does nothing any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from penstock.broker.commit_queue import Ahead, Group, Read
from penstock.broker.durable import Change, Recovered, SetValue
from penstock.broker.effects import ReadKept, ReadLog
from penstock.sim.database import Connection, Content, Database, Doubtful, Transaction
from penstock.sim.device import Device, DeviceUser
from penstock.sim.holdings import store_application
from penstock.sim.process import Gate, Promise, Running, Waiting, kept, sleep
from penstock.sim.transactions import (
    CommitChanges,
    CountCommits,
    Counted,
    Done,
    Fenced,
    Found,
    ProveCommit,
    ReadContent,
    Tenure,
)

__all__ = ["Opened", "SharedDevice", "StoreOf"]

_INCARNATION: Final = "incarnation"
_RETRY_US: Final = 50_000
"""How long a device waits before it tries again to reach the database."""


@dataclass(slots=True, frozen=True)
class StoreOf:
    """Which store it is, and who opens it."""

    tenure: Tenure
    client: str
    """The candidate whose process it is."""
    answer_ms: int


@dataclass(slots=True, frozen=True)
class Opened:
    """What opening the store brought."""

    recovered: Recovered
    incarnation: int


class _FailedError(Exception):
    """The store cannot be used any more."""


class SharedDevice(Device):
    """The device of one life of a home."""

    def __init__(
        self,
        database: Database,
        store: StoreOf,
        user: DeviceUser,
        *,
        gate: Gate,
        counts: Counter[str],
        given_up: dict[str, int],
        on_failed: Callable[[str], None],
        rng: Random,
    ) -> None:
        """``given_up`` is shared by all lives; ``on_failed`` is told why the store cannot be used any more."""
        super().__init__(database.clock, rng, user)
        self.given_up = given_up
        self.on_stopped: Callable[[], None] | None = None
        """Called when an orderly end is over."""
        self.is_over = False
        """Whether it does nothing any more."""
        self._database, self._store, self._gate = database, store, gate
        self._counts, self._on_failed = counts, on_failed
        self._connection: Connection | None = None
        self._running: Running[Any] | None = None
        self._commits = 0
        """How many commits the store has had, as far as is known."""
        self._is_ending = False

    # --- its life

    def open(self, started_ms: int, on_opened: Callable[[Opened], None]) -> None:
        """Recover what earlier lives left, and make a new incarnation durable before it is used."""
        self._run(self._opening(started_ms), on_opened)

    def crash(self) -> None:
        """End at once: what was sent to the database may still be done there."""
        self.unsynced += len(self._queue)
        self._close()

    def stop(self) -> None:
        """Make durable what waits, and report nothing more."""
        self._is_ending = True
        self._queue.end()
        self._go_on()

    def _close(self) -> None:
        self.is_over = True
        self._forget()
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
        if self._connection is not None:
            self._connection.close()

    def _go_on(self) -> None:
        if self.is_over:
            return
        super()._go_on()
        if self._is_ending and self._queue.under_way is None and not len(self._queue):
            self._close()
            if self.on_stopped is not None:
                self.on_stopped()

    def _fail(self, reason: str) -> None:
        self._close()
        self._on_failed(reason)

    def _run(self, steps: Waiting[Any], on_end: Callable[[Any], None]) -> None:
        """Carry out one thing; only one is under way at a time."""
        self._running = Running(self._guarded(steps), self._gate, partial(self._end, on_end))

    def _guarded(self, steps: Waiting[Any]) -> Waiting[Any]:
        try:
            return (yield from steps)
        except _FailedError as error:
            return error

    def _end(self, on_end: Callable[[Any], None], outcome: Any) -> None:
        self._running = None
        if self.is_over:
            return
        if isinstance(outcome, _FailedError):
            self._fail(str(outcome))
        else:
            on_end(outcome)

    # --- what it does

    def _begin_write(self, work: Group | Ahead) -> None:
        assert isinstance(work, Group), "a database is never full here"
        self._run(self._committing(tuple(work.changes())), self._on_written)

    def _on_written(self, _: object) -> None:
        self.syncs += 1
        for report in self._queue.on_durable():
            if not self._is_ending:
                self._tell(report)
        self._go_on()

    def _begin_read(self, wish: Read) -> None:
        self._run(self._reading(partial(_read, wish=wish)), partial(self._on_found, wish))

    def _on_found(self, wish: Read, found: Any) -> None:
        self._queue.on_read()
        if self._is_ending:
            pass
        elif isinstance(wish, ReadKept):
            self._user.kept_read(wish.number, found)
        else:
            self._user.read(wish.number, *found)
        self._go_on()

    def _opening(self, started_ms: int) -> Waiting[Opened]:
        recovered, commits = yield from self._reading(_recovered)
        self._commits = commits
        stored = recovered.values.get(_INCARNATION, b"")
        incarnation = max(started_ms, int(stored) + 1) if stored else started_ms
        yield from self._committing((SetValue(_INCARNATION, b"%d" % incarnation),))
        return Opened(recovered, incarnation)

    def _committing(self, changes: tuple[Change, ...]) -> Waiting[None]:
        """Make changes durable; returns when they are."""
        tenure, number, mark = self._store.tenure, self._commits + 1, self._database.next_serial()
        commit, proof = CommitChanges(tenure, number, mark, changes), ProveCommit(tenure, number, mark)
        answer = yield from self._tried(commit, is_in_doubt=False)
        while True:
            while isinstance(answer, Doubtful):
                assert self._connection is not None
                answer = yield self._asked(self._connection, proof)
            if isinstance(answer, Done):
                break
            if isinstance(answer, Fenced):
                raise self._fenced("fenced_commits")
            yield from self._give_up()
            answer = yield from self._tried(commit, is_in_doubt=True)
        self._commits = number

    def _tried(self, commit: CommitChanges, *, is_in_doubt: bool) -> Waiting[Any]:
        """The answer to a commit, which is repeated only if it was not done."""
        connection = yield from self._connected()
        if is_in_doubt:
            found = yield self._asked(connection, CountCommits(self._store.tenure.home))
            if not isinstance(found, Counted):
                return None
            if self._is_done(found, commit):
                self._counts["doubtful_commits_found"] += 1
                return Doubtful()
            self._counts["doubtful_commits_repeated"] += 1
        return (yield self._asked(connection, commit))

    def _is_done(self, found: Counted, commit: CommitChanges) -> bool:
        """Whether a commit in doubt has happened; then it may still have to reach the standby."""
        if (found.commits, found.mark) == (commit.number, commit.mark):
            return True
        self._check_not_less(found)
        if found.commits > self._commits:
            raise self._fenced("fenced_commits")
        return False

    def _reading(self, read: Callable[[Content], Any]) -> Waiting[Any]:
        while True:
            connection = yield from self._connected()
            answer = yield self._asked(connection, ReadContent(self._store.tenure, read))
            if isinstance(answer, Found):
                return answer.value
            if isinstance(answer, Fenced):
                raise self._fenced("fenced_reads")
            yield from self._give_up()

    def _check_not_less(self, found: Counted) -> None:
        if found.commits < self._commits:
            # A former primary that came back, unless the database has lost what it had acknowledged.
            self._counts["fewer_commits"] += 1
            raise _FailedError(f"the database has lost {self._commits - found.commits} commits")

    def _fenced(self, probe: str) -> _FailedError:
        self._counts[probe] += 1
        return _FailedError("the home belongs to a later epoch, or to another life")

    # --- connecting

    def _connected(self) -> Waiting[Connection]:
        """The connection, made anew if it was lost, however long that takes."""
        while self._connection is None or not self._connection.is_open:
            self._connection = connection = yield from self._database.connecting(
                self._store.client,
                store_application(self._store.tenure.home),
                listens="",
                answer_ms=self._store.answer_ms,
            )
            if connection is None:
                yield sleep(self._clock, _RETRY_US)
            elif self._commits:
                yield from self._check(connection)
        return self._connection

    def _check(self, connection: Connection) -> Waiting[None]:
        """Find out whether a server lacks commits: a read would take what was in them for silence."""
        found = yield self._asked(connection, CountCommits(self._store.tenure.home))
        if isinstance(found, Counted):
            self._check_not_less(found)
        else:
            yield from self._give_up()

    def _asked(self, connection: Connection, transaction: Transaction) -> Promise[Any]:
        """The answer to one question; None if it is not known."""
        if not connection.is_open:
            return kept(None)
        return connection.ask(transaction, answer_ms=self._store.answer_ms)

    def _give_up(self) -> Waiting[None]:
        """Drop the connection after a problem that another one may not have."""
        if self._connection is not None:
            self._connection.close()
        yield sleep(self._clock, _RETRY_US)


def _recovered(content: Content) -> tuple[Recovered, int]:
    return content.disk.recovered(), content.commits


def _read(content: Content, *, wish: ReadLog | ReadKept) -> Any:
    if isinstance(wish, ReadKept):
        return content.disk.read_kept(wish.names)
    return content.disk.read(wish.pubend, wish.first, wish.last, wish.bytes_max)
