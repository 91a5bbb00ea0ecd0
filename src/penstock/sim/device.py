"""The modelled device under a simulated broker's disk: syncs and reads take time, and it can be slow, full or cut off.

As in the live store, all commits that wait when a sync begins become durable together (group commit), one sync at a
time. Without space they keep their order and are tried again every second; trims and values go ahead. When the power
fails, the group under way is durable or lost as a whole, by chance: a torn write is recognised by the store, and
dropped. So messages may be durable that nobody was told of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from penstock.broker.ahead import changes_ahead, without_values
from penstock.broker.durable import ForgetPublishers, SetValue, Trim, space_bytes
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.model.tick import TickRange
from penstock.sim.clock import Clock, Timer
from penstock.sim.disk import Disk

__all__ = ["Device", "DeviceUser"]

_RETRY_US: Final = 1_000_000
"""How often a commit that found no space is tried again."""
_GROUP_MAX: Final = 1 << 16
"""Commits made durable by one sync, if there is space for all."""


@dataclass(slots=True, frozen=True)
class DeviceUser:
    """Whom the device calls back: the shell of the broker in its present life."""

    committed: Callable[[int], None]
    """All commits up to this number are durable."""
    values_kept: Callable[[int], None]
    """The named values of all commits up to this number are durable, ahead of the rest."""
    full: Callable[[str], None]
    """The oldest commit waits for space, and why; said once for as long as it lasts."""
    read: Callable[[int, list[tuple[int, bytes]], int, TickRange | None], None]
    """The number of a read, and what the disk says."""
    kept_read: Callable[[int, dict[str, bytes | None]], None]
    """The number of a read of kept records, and what the disk says."""


class Device:
    """Makes commits durable and reads, in virtual time."""

    def __init__(
        self, clock: Clock, rng: Random, user: DeviceUser, *, sync_us: int = 2_000, read_us: int = 500
    ) -> None:
        self.disk = Disk()
        self.sync_us, self.read_us = sync_us, read_us
        self.slowness = 1.0
        """A factor on all that takes time."""
        self.is_full = False
        """Whether there is no space for messages and large records; what makes room or is small always finds some."""
        self.capacity_bytes: int | None = None
        """Bytes of bodies and records for which there is space at all; none for any number."""
        self.syncs = self.torn = self.saved = self.unsynced = 0
        """Syncs that ended, groups that a crash destroyed or left behind durable, commits it found waiting."""
        self.given_up: dict[str, int] = {}
        """By pubend, the highest tick below which a broker ever wanted to trim; it may have crashed before that."""
        self._clock, self._rng, self._user = clock, rng, user
        self._waiting: list[Commit] = []
        self._group: list[Commit] = []
        self._timer: Timer | None = None
        self._is_stuck = False
        self._group_max = _GROUP_MAX
        self._life = 0
        self._read_us = 0

    @property
    def waiting(self) -> int:
        """Commits that are not durable yet."""
        return len(self._waiting) + len(self._group)

    def commit(self, commit: Commit) -> None:
        """Make a commit durable, together with others that wait."""
        self._waiting.append(commit)
        for change in commit.changes:
            if isinstance(change, Trim):
                self.given_up[change.pubend] = max(change.below_tick, self.given_up.get(change.pubend, 0))
        is_relief = self._is_stuck and not self._group and bool(changes_ahead([commit]))
        if self._timer is not None and is_relief:
            self._clock.cancel(self._timer)
            self._timer = None
        if self._timer is None:
            self._begin_sync()

    def read(self, wish: ReadLog | ReadKept) -> None:
        """Read, and in the order of the wishes say what was found as of the time of saying it."""
        life = self._life

        def done() -> None:
            if life != self._life:
                return
            if isinstance(wish, ReadKept):
                self._user.kept_read(wish.number, self.disk.read_kept(wish.names))
            else:
                found = self.disk.read(wish.pubend, wish.first, wish.last, wish.bytes_max)
                self._user.read(wish.number, *found)

        # A device that gets faster again must not let a later wish overtake.
        self._read_us = max(self._read_us, self._clock.now_us + int(self.read_us * self.slowness))
        self._clock.at(self._read_us, done)

    def crash(self) -> None:
        """Lose what was not synced; what was being synced is lost or durable by chance."""
        if self._group and self._has_space(self._group):
            if self._rng.random() < 0.5:
                self.saved += 1
                self._make_durable(self._group)
            else:
                self.torn += 1
        self.unsynced += len(self._waiting)
        self._forget()

    def stop(self) -> None:
        """Sync what waits, if there is space, and say nothing any more: an orderly end."""
        rest = self._group + self._waiting
        if rest and self._has_space(rest):
            self._make_durable(rest)
        self._forget()

    def _forget(self) -> None:
        if self._timer is not None:
            self._clock.cancel(self._timer)
        self._timer = None
        self._waiting, self._group, self._is_stuck, self._group_max = [], [], False, _GROUP_MAX
        self._read_us = 0
        self._life += 1

    def _begin_sync(self) -> None:
        count = self._group_size()
        self._group, self._waiting = self._waiting[:count], self._waiting[count:]
        self._timer = self._clock.after(int(self.sync_us * self.slowness), self._end_sync)

    def _group_size(self) -> int:
        """The commits that share a sync: all, but none behind one that forgets publishers, which goes last in it."""
        for place, commit in enumerate(self._waiting):
            if any(isinstance(each, ForgetPublishers) for each in commit.changes):
                return min(place + 1, self._group_max)
        return min(len(self._waiting), self._group_max)

    def _end_sync(self) -> None:
        group, self._group, self._timer = self._group, [], None
        if not self._has_space(group):
            self._waiting = group + self._waiting
            self._do_without_space(len(group))
            return
        self._is_stuck, self._group_max = False, _GROUP_MAX
        self.syncs += 1
        self._make_durable(group)
        self._user.committed(group[-1].number)
        if self._waiting and self._timer is None:
            self._begin_sync()

    def _do_without_space(self, count: int) -> None:
        """Make room with what trims wait, or try fewer commits at once; failing that, wait."""
        life = self._life
        has_trimmed = self._has_gone_ahead()
        if life != self._life or self._timer is not None:
            # The broker was told, and has committed something more.
            return
        if has_trimmed:
            self._begin_sync()
        elif count > 1:
            self._group_max = count // 2
            self._begin_sync()
        else:
            self._group_max = _GROUP_MAX
            self._timer = self._clock.after(_RETRY_US, self._begin_sync)
            if not self._is_stuck:
                self._is_stuck = True
                self._user.full("there is no space left on the device")

    def _has_gone_ahead(self) -> bool:
        """Carry out the trims and keep the values that wait; says whether there is more space by that."""
        changes = changes_ahead(self._waiting)
        before = self.disk.size_bytes
        self.disk.apply(changes)
        if any(isinstance(each, SetValue) for each in changes):
            self._waiting = [without_values(commit) for commit in self._waiting]
            self._user.values_kept(self._waiting[-1].number)
        return self.disk.size_bytes < before

    def _has_space(self, group: list[Commit]) -> bool:
        changes = [change for commit in group for change in commit.changes]
        if not any(map(space_bytes, changes)):
            return True
        return not self.is_full and (
            self.capacity_bytes is None or self.disk.size_bytes + self.disk.growth_bytes(changes) <= self.capacity_bytes
        )

    def _make_durable(self, group: list[Commit]) -> None:
        numbers = [commit.number for commit in group]
        assert numbers == sorted(set(numbers)), f"commits out of order: {numbers}"
        self.disk.apply([change for commit in group for change in commit.changes])
