"""The modelled device under a simulated broker's disk: syncs and reads take time, and it can be slow, full or cut off.

As in the live store, ``broker.commit_queue`` decides what is done next, which commits share a sync, and what happens to
them when there is no space. When the power fails, the write under way is durable or lost as a whole, at random: the
store recognises a torn write and drops it. So messages may be durable although the broker was never told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from penstock.broker.commit_queue import Ahead, CommitQueue, Committed, Full, Group, QueueReport, Read, ValuesKept
from penstock.broker.durable import Change, Trim, space_bytes
from penstock.broker.effects import Commit, ReadKept
from penstock.model.tick import TickRange
from penstock.sim.clock import Clock, Timer
from penstock.sim.disk import Disk

__all__ = ["Device", "DeviceUser"]


@dataclass(slots=True, frozen=True)
class DeviceUser:
    """The device's callbacks to its user: the shell of the broker in its present life."""

    committed: Callable[[int], None]
    """All commits up to this number are durable."""
    values_kept: Callable[[int], None]
    """The named values of all commits up to this number are durable, ahead of the rest."""
    full: Callable[[str], None]
    """The oldest commit waits for space, for this reason; called once per shortage."""
    read: Callable[[int, list[tuple[int, bytes]], int, TickRange | None], None]
    """The number of a read, and its result."""
    kept_read: Callable[[int, dict[str, bytes | None]], None]
    """The number of a read of kept records, and its result."""


class Device:
    """Makes commits durable and serves reads, in virtual time."""

    def __init__(
        self, clock: Clock, rng: Random, user: DeviceUser, *, sync_us: int = 2_000, read_us: int = 500
    ) -> None:
        self.disk = Disk()
        self.sync_us, self.read_us = sync_us, read_us
        self.slowness = 1.0
        """A factor on the time of all operations."""
        self.is_full = False
        """Whether there is no space for messages and large records; changes that make room or are small always fit."""
        self.capacity_bytes: int | None = None
        """Total space for bodies and records, in bytes; None for no limit."""
        self.syncs = self.torn = self.saved = self.unsynced = 0
        """Groups that became durable; writes that a crash tore, or left durable; commits that a crash found waiting."""
        self.given_up: dict[str, int] = {}
        """By pubend, the highest tick below which a broker ever wanted to trim; it may have crashed before it did."""
        self._clock, self._rng, self._user = clock, rng, user
        self._queue = CommitQueue()
        self._timer: Timer | None = None
        """Ends the work under way, or retries work that found no space."""

    @property
    def waiting(self) -> int:
        """Commits that are not durable yet."""
        return len(self._queue)

    def commit(self, commit: Commit) -> None:
        """Make a commit durable, together with others that wait."""
        self._queue.put(commit)
        for change in commit.changes:
            if isinstance(change, Trim):
                self.given_up[change.pubend] = max(change.below_tick, self.given_up.get(change.pubend, 0))
        self._go_on()

    def read(self, wish: Read) -> None:
        """Read, in the order of the requests; the result is as of the time it is reported."""
        self._queue.put_read(wish)
        self._go_on()

    def crash(self) -> None:
        """Lose what was not synced; what was being synced is lost or durable by chance."""
        work = self._queue.under_way
        if isinstance(work, Group | Ahead) and self._has_space(work.changes()):
            if self._rng.random() < 0.5:
                self.saved += 1
                self.disk.apply(work.changes())
            else:
                self.torn += 1
        in_group = len(work.commits) if isinstance(work, Group) else 0
        self.unsynced += len(self._queue) - in_group
        self._forget()

    def stop(self) -> None:
        """Sync what waits, as far as there is space, and report nothing more: an orderly end."""
        if isinstance(self._queue.under_way, Read):
            self._queue.on_read()
        self._queue.end()
        work = self._queue.under_way or self._queue.begin_next(now_ms=self._clock.now_ms)
        while isinstance(work, Group | Ahead):
            self._write(work)
            work = self._queue.begin_next(now_ms=self._clock.now_ms)
        self._forget()

    def _forget(self) -> None:
        self._stop_timer()
        self._queue = CommitQueue()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._clock.cancel(self._timer)
        self._timer = None

    def _go_on(self) -> None:
        """Begin the next work, or come back when it may be retried; does nothing while work is under way."""
        begin_at_ms = self._queue.next_deadline()
        if begin_at_ms is None:
            return
        self._stop_timer()
        work = self._queue.begin_next(now_ms=self._clock.now_ms)
        if work is None:
            self._timer = self._clock.at(begin_at_ms * 1_000, self._go_on)
        elif isinstance(work, Group | Ahead):
            self._begin_write(work)
        else:
            self._begin_read(work)

    def _begin_write(self, work: Group | Ahead) -> None:
        self._timer = self._clock.after(int(self.sync_us * self.slowness), partial(self._end_write, work))

    def _begin_read(self, wish: Read) -> None:
        self._timer = self._clock.after(int(self.read_us * self.slowness), partial(self._end_read, wish))

    def _end_write(self, write: Group | Ahead) -> None:
        for report in self._write(write):
            self._tell(report)
        self._go_on()

    def _end_read(self, wish: Read) -> None:
        self._queue.on_read()
        if isinstance(wish, ReadKept):
            self._user.kept_read(wish.number, self.disk.read_kept(wish.names))
        else:
            found = self.disk.read(wish.pubend, wish.first, wish.last, wish.bytes_max)
            self._user.read(wish.number, *found)
        self._go_on()

    def _write(self, write: Group | Ahead) -> list[QueueReport]:
        """Make a write durable if there is space; returns what to report."""
        changes = write.changes()
        if not self._has_space(changes):
            return self._queue.on_full("there is no space left on the device", now_ms=self._clock.now_ms)
        trims = write.trims if isinstance(write, Ahead) else ()
        before = [self.disk.trimmed_below(trim.pubend) for trim in trims]
        self.disk.apply(changes)
        if isinstance(write, Ahead):
            after = [self.disk.trimmed_below(trim.pubend) for trim in trims]
            return self._queue.on_gone_ahead(has_made_room=before != after, now_ms=self._clock.now_ms)
        self.syncs += 1
        return self._queue.on_durable()

    def _tell(self, report: QueueReport) -> None:
        match report:
            case Committed(number):
                self._user.committed(number)
            case ValuesKept(number):
                self._user.values_kept(number)
            case Full(reason):
                self._user.full(reason)

    def _has_space(self, changes: Sequence[Change]) -> bool:
        if not any(map(space_bytes, changes)):
            return True
        return not self.is_full and (
            self.capacity_bytes is None or self.disk.size_bytes + self.disk.growth_bytes(changes) <= self.capacity_bytes
        )
