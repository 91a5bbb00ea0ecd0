"""Makes a live broker's data durable: the event loop's side of the thread that owns the store.

Nothing here waits for the disk. Each report of the thread arrives as one callback in the loop, and is passed to a
listener. The queue to the thread is bounded by the credit of publishers, who get none back for messages that are not
durable yet.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from threading import Thread
from typing import Any, Final, Protocol

from penstock.broker.commit_queue import Committed, Full, ValuesKept, body_bytes
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.live.backup import Backup
from penstock.live.store import StoreFailedError
from penstock.live.store_worker import (
    Ended,
    Failed,
    KeptRead,
    LogRead,
    Opened,
    Report,
    StoreWorker,
)
from penstock.live.stores import Place
from penstock.model.errors import PenstockError
from penstock.system.logs import log

__all__ = ["CLOSE_S_MAX", "Keeper", "KeeperListener"]

CLOSE_S_MAX: Final = 5.0
"""Time that the store gets to commit what is queued and to close; a disk that hangs must not hang the shutdown."""

_SWITCH_S: Final = 0.0001
"""How long the store's thread waits before it requests the GIL, which it needs a dozen times per commit.

With Python's default of 5 ms a loop that is never idle starves the thread: its turns are shorter, so it releases the
GIL and takes it back before the request, and a commit took seconds. With this it takes some 2 to 6 ms beside such a
loop.
"""


class KeeperListener(Protocol):
    """Receives the reports of the store; called in the event loop."""

    def on_committed(self, number: int) -> None:
        """All commits up to this number are durable."""

    def on_values_kept(self, number: int) -> None:
        """The named values of all commits up to this number are durable, ahead of the rest."""

    def on_full(self, reason: str) -> None:
        """The oldest commit has to wait for space; it is retried."""

    def on_read(self, found: LogRead) -> None:
        """A read of a log has finished."""

    def on_kept_read(self, found: KeptRead) -> None:
        """A read of kept records has finished."""

    def on_failed(self, error: PenstockError) -> None:
        """The store has failed; only a restart can tell what is durable."""


class Keeper:
    """A store in a thread of its own; call ``open`` first and ``close`` at the end."""

    def __init__(self, place: Place, listener: KeeperListener) -> None:
        self._place, self._listener = place, listener
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker = StoreWorker(place, self._tell)
        self._thread: Thread | None = None
        self._opened: asyncio.Future[Opened] | None = None
        self._ended = asyncio.Event()
        self._is_over = False
        self.waiting_commits = 0
        self.waiting_bytes = 0

    @property
    def shown(self) -> str:
        """Where the store is, for people."""
        return self._place.shown

    async def open(self, *, started_ms: int) -> Opened:
        """Open the store and record the new incarnation; raises the store's own error if it refuses."""
        assert self._thread is None, "a store is opened once"
        self._loop = asyncio.get_running_loop()
        sys.setswitchinterval(min(_SWITCH_S, sys.getswitchinterval()))
        self._opened = self._loop.create_future()
        # A daemon: a thread that hangs in a sync must not keep the process alive.
        self._thread = Thread(
            target=self._worker.run, args=(started_ms,), name=f"store of {self._place.broker}", daemon=True
        )
        self._thread.start()
        try:
            return await self._opened
        except asyncio.CancelledError:
            # Nothing was committed: whatever it waits for, nobody else has to.
            self.abandon()
            raise
        except BaseException:
            await self.close()
            raise

    def submit(self, commit: Commit) -> None:
        """Queue a commit; the listener is told when it is durable."""
        if self._is_over:
            # Nothing was acknowledged: it is as if the broker had been killed before.
            return
        self.waiting_commits += 1
        self.waiting_bytes += body_bytes(commit)
        self._worker.put(commit)

    def read(self, ask: ReadLog | ReadKept) -> None:
        """Queue a read; the listener gets the result."""
        if not self._is_over:
            self._worker.put(ask)

    def back_up(self, backup: Backup) -> None:
        """Have the store copied into the folder of the backup, which says how far that is."""
        if self._is_over:
            backup.fail("the broker stops")
        else:
            self._worker.put(backup)

    async def close(self) -> None:
        """Commit what is queued, within a time limit, and close the store."""
        if self._thread is None:
            return
        self._is_over = True
        self._worker.end()
        try:
            async with asyncio.timeout(CLOSE_S_MAX):
                await self._ended.wait()
        except TimeoutError:
            log("store-slow", (("broker", self._place.broker), ("commits", self.waiting_commits)))
            return
        self._thread.join()
        self._thread = None

    def abandon(self) -> None:
        """Leave the store as it is, at once: what is not durable was never acknowledged, and may or may not become so.

        For a store that is somebody else's by now, or will be: its thread ends as soon as it notices.
        """
        self._is_over = True
        self._worker.abandon()
        self._thread = None

    def status(self) -> dict[str, Any]:
        """The store's figures."""
        return {
            "folder": self._place.shown,
            **self._worker.figures.as_dict(),
            "waiting_commits": self.waiting_commits,
            "waiting_bytes": self.waiting_bytes,
        }

    def _tell(self, report: Report) -> None:
        """Pass a report from the store's thread to the loop."""
        assert self._loop is not None
        # If the loop was closed without closing the store, nobody is left to listen.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_report, report)

    def _on_report(self, report: Report) -> None:
        match report:
            case Committed(number, commits, size_bytes):
                self.waiting_commits -= commits
                self.waiting_bytes -= size_bytes
                self._listener.on_committed(number)
            case ValuesKept(number):
                self._listener.on_values_kept(number)
            case LogRead():
                self._listener.on_read(report)
            case KeptRead():
                self._listener.on_kept_read(report)
            case Full(reason):
                self._listener.on_full(reason)
            case Failed(error):
                self._on_failed(error)
            case Opened():
                assert self._opened is not None
                if not self._opened.done():
                    self._opened.set_result(report)
            case Ended(left):
                if left:
                    log("store-dropped", (("broker", self._place.broker), ("commits", left)))
                self._ended.set()

    def _on_failed(self, error: Exception) -> None:
        assert self._opened is not None
        if not isinstance(error, PenstockError):
            reason = error.strerror if isinstance(error, OSError) else None
            shown = StoreFailedError(f"store {self._place.shown} failed: {reason or repr(error)}")
            shown.__cause__ = error
            error = shown
        if not self._opened.done():
            self._opened.set_exception(error)
        elif not self._is_over:
            self._is_over = True
            self._listener.on_failed(error)
