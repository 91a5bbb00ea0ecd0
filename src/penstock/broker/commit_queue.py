"""Orders a broker's commits and reads: the shell owns the disk, this decides what it does next.

All waiting commits share the next sync (group commit). Nothing is delayed to gather more, since others gather while a
sync is under way. Between two syncs there is at most one read, so neither waits for many of the other. The commits are
bounded by the credit of publishers, who get none for messages that are not durable; the reads by those who ask.

When there is no space the commits keep their order and are retried every second. Trims and named values are made
durable ahead of them. Only trims make room, and only subscribers that advance make trims possible. A durable
subscription advances when its claim is durable, which is a named value: if that waited behind the messages, the two
would deadlock. Those of all waiting commits go ahead in one write, and so no trim goes without the values of its own
commit, which may be last values of what is trimmed (``pubend.compaction``).

A shell carries out what ``begin_next`` returns, one at a time, and reports how it ended: ``on_durable``,
``on_gone_ahead`` or ``on_full`` for a write, ``on_read`` or ``on_read_late`` for a read. A store that fails in any
other way ends the life of the broker, and its queue with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

from penstock.broker.durable import Append, Change, ForgetPublishers, SetValue, Trim, space_bytes
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.model.tick import Tick

__all__ = [
    "GROUP_BYTES_MAX",
    "RETRY_MS",
    "Ahead",
    "CommitQueue",
    "Committed",
    "Full",
    "Group",
    "QueueReport",
    "Read",
    "ValuesKept",
    "Work",
    "body_bytes",
]

GROUP_BYTES_MAX: Final = 8 << 20
"""Most bytes of bodies and records in a group, unless one commit has more. The live store's reserve relies on it."""
RETRY_MS: Final = 1_000
"""How often a commit that found no space is retried, or a read for which the system lacked a resource."""

_GROUP_MAX: Final = 1 << 16
"""Most commits in one group, while there is space for all."""


@dataclass(slots=True, frozen=True)
class Group:
    """Commits that become durable together, by one sync."""

    commits: tuple[Commit, ...]
    size_bytes: int

    def changes(self) -> list[Change]:
        """All changes to write, in order."""
        return [change for commit in self.commits for change in commit.changes]


@dataclass(slots=True, frozen=True)
class Ahead:
    """Trims and named values of commits that wait for space, to be made durable before those commits."""

    trims: tuple[Trim, ...]
    """One for each pubend; none goes beyond waiting messages, which could not be appended any more."""
    values: tuple[SetValue, ...]
    number: int
    """The last commit they were taken from."""
    refused: int
    """How many commits were in the group that found no space."""
    reason: str
    """Why there was no space."""

    def changes(self) -> list[Change]:
        """All changes to write, in order."""
        return [*self.trims, *self.values]


@dataclass(slots=True, frozen=True)
class Committed:
    """All commits up to a number are durable: this many, with this many bytes, since the last report."""

    number: int
    commits: int
    size_bytes: int


@dataclass(slots=True, frozen=True)
class ValuesKept:
    """The named values of all commits up to a number are durable, though messages before them wait for space."""

    number: int


@dataclass(slots=True, frozen=True)
class Full:
    """The oldest commit has to wait for space; reported once until a group is durable again."""

    reason: str


QueueReport: TypeAlias = Committed | ValuesKept | Full
Read: TypeAlias = ReadLog | ReadKept
Work: TypeAlias = Group | Ahead | Read


class CommitQueue:
    """The commits of one life of a broker that are not durable yet, its reads, and what to do next."""

    def __init__(self, *, retry_ms: int = RETRY_MS) -> None:
        self.under_way: Work | None = None
        """What the shell is carrying out; commits in it still count as not durable."""
        self.full_reason = ""
        """Why commits wait for space; empty if they do not."""
        self._retry_ms = retry_ms
        self._waiting: deque[Commit] = deque()
        self._ahead: Ahead | None = None
        self._group_max = _GROUP_MAX
        self._write_at_ms = 0
        self._reads: deque[Read] = deque()
        self._read_at_ms = 0
        self._is_turn_of_reads = False

    def __len__(self) -> int:
        """Counts the commits that are not durable."""
        return len(self._waiting)

    def put(self, commit: Commit) -> None:
        """Queues a commit, to be made durable after all earlier ones."""
        if self._waiting:
            last = self._waiting[-1].number
            assert last < commit.number, f"commit {commit.number} comes after commit {last}"
        self._waiting.append(commit)
        if self._write_at_ms and _can_go_ahead([commit]):
            self._write_at_ms = 0

    def put_read(self, read: Read) -> None:
        """Queues a read, to be answered after all earlier ones."""
        self._reads.append(read)

    def end(self) -> None:
        """Drops the reads, and retries once what waits for space, since space may not come for days."""
        self._reads.clear()
        self._write_at_ms = 0

    def next_deadline(self) -> int | None:
        """The time from which ``begin_next`` has work, zero for at once; None if there is nothing to begin."""
        if self.under_way is not None:
            return None
        due_ms = []
        if self._waiting:
            due_ms.append(self._write_at_ms)
        if self._reads:
            due_ms.append(self._read_at_ms)
        return min(due_ms, default=None)

    def begin_next(self, *, now_ms: int) -> Work | None:
        """Returns what the shell must read now, or write as one commit of its store; None if nothing is due."""
        assert self.under_way is None, f"{self.under_way} is still under way"
        can_write = bool(self._waiting) and now_ms >= self._write_at_ms
        can_read = bool(self._reads) and now_ms >= self._read_at_ms
        if can_read and (self._is_turn_of_reads or not can_write):
            self.under_way = self._reads.popleft()
        elif can_write:
            self.under_way = self._ahead if self._ahead is not None else self._next_group()
            self._ahead = None
            self._write_at_ms = 0
        return self.under_way

    def on_durable(self) -> list[QueueReport]:
        """The group is durable."""
        group = self._ended_write()
        assert isinstance(group, Group), f"{group} is no group"
        for _ in group.commits:
            self._waiting.popleft()
        self.full_reason = ""
        self._group_max = min(2 * self._group_max, _GROUP_MAX)
        return [Committed(group.commits[-1].number, len(group.commits), group.size_bytes)]

    def on_gone_ahead(self, *, has_made_room: bool, now_ms: int) -> list[QueueReport]:
        """Trims and values that went ahead are durable; the trims may have made room."""
        ahead = self._ended_write()
        assert isinstance(ahead, Ahead), f"{ahead} does not go ahead"
        reports: list[QueueReport] = []
        if ahead.values:
            # An older value must not replace a newer one later. Values that came meanwhile did not go ahead.
            self._waiting = deque(_without_values(each, up_to=ahead.number) for each in self._waiting)
            reports.append(ValuesKept(ahead.number))
        if not has_made_room:
            reports += self._try_fewer(ahead.refused, ahead.reason, self._newer_than(ahead), now_ms=now_ms)
        return reports

    def on_full(self, reason: str, *, now_ms: int) -> list[QueueReport]:
        """There is no space for what was under way, and nothing of it was written."""
        refused = self._ended_write()
        if isinstance(refused, Ahead):
            return self._try_fewer(refused.refused, refused.reason, self._newer_than(refused), now_ms=now_ms)
        if not _can_go_ahead(self._waiting):
            return self._try_fewer(len(refused.commits), reason, [], now_ms=now_ms)
        self._ahead = Ahead(
            trims=_trims_ahead(self._waiting),
            values=_values_of(self._waiting),
            number=self._waiting[-1].number,
            refused=len(refused.commits),
            reason=reason,
        )
        return []

    def on_read(self) -> None:
        """The read was answered."""
        self._ended_read()
        self._read_at_ms = 0

    def on_read_late(self, *, now_ms: int) -> None:
        """The system lacks a resource for the read: retries it later, and those behind it wait as well."""
        self._reads.appendleft(self._ended_read())
        self._read_at_ms = now_ms + self._retry_ms

    def _ended_read(self) -> Read:
        ended = self.under_way
        assert isinstance(ended, Read), f"{ended} is no read"
        self.under_way = None
        self._is_turn_of_reads = False
        return ended

    def _ended_write(self) -> Group | Ahead:
        ended = self.under_way
        assert isinstance(ended, Group | Ahead), f"{ended} is no write"
        self.under_way = None
        self._is_turn_of_reads = True
        return ended

    def _next_group(self) -> Group:
        """The commits that share the next sync."""
        commits: list[Commit] = []
        size_bytes = 0
        for commit in islice(self._waiting, self._group_max):
            commit_bytes = body_bytes(commit)
            if commits and size_bytes + commit_bytes > GROUP_BYTES_MAX:
                break
            commits.append(commit)
            size_bytes += commit_bytes
            # A commit of the store forgets publishers last, so later commits must not join this group.
            if any(isinstance(each, ForgetPublishers) for each in commit.changes):
                break
        return Group(tuple(commits), size_bytes)

    def _try_fewer(self, refused: int, reason: str, newer: list[Commit], *, now_ms: int) -> list[QueueReport]:
        """Tries half of a group next, as its first commits may fit where all do not; a single one has to wait."""
        self._group_max = max(1, refused // 2)
        if refused > 1:
            return []
        is_news = not self.full_reason
        self.full_reason = reason
        # Commits that came while others went ahead may make room as well.
        if not _can_go_ahead(newer):
            self._write_at_ms = now_ms + self._retry_ms
        return [Full(reason)] if is_news else []

    def _newer_than(self, ahead: Ahead) -> list[Commit]:
        return [commit for commit in self._waiting if commit.number > ahead.number]


def body_bytes(commit: Commit) -> int:
    """Bytes of the messages and large records in a commit."""
    return sum(map(space_bytes, commit.changes))


def _can_go_ahead(commits: Iterable[Commit]) -> bool:
    return any(isinstance(each, Trim | SetValue) for commit in commits for each in commit.changes)


def _trims_ahead(commits: Iterable[Commit]) -> tuple[Trim, ...]:
    below: dict[str, Tick] = {}
    first_waiting: dict[str, Tick] = {}
    for change in [change for commit in commits for change in commit.changes]:
        if isinstance(change, Trim):
            below[change.pubend] = max(change.below_tick, below.get(change.pubend, change.below_tick))
        elif isinstance(change, Append) and change.messages:
            first_waiting.setdefault(change.pubend, change.messages[0][0])
    return tuple(Trim(pubend, min(tick, first_waiting.get(pubend, tick))) for pubend, tick in below.items())


def _values_of(commits: Iterable[Commit]) -> tuple[SetValue, ...]:
    return tuple(change for commit in commits for change in commit.changes if isinstance(change, SetValue))


def _without_values(commit: Commit, *, up_to: int) -> Commit:
    """The rest of a commit whose named values went ahead; commits above that number keep theirs."""
    if commit.number > up_to:
        return commit
    return replace(commit, changes=tuple(each for each in commit.changes if not isinstance(each, SetValue)))
