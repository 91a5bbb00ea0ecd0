"""The order in which a broker's commits become durable; the shells have the disk, and this decides what they write.

All commits that wait share the next sync (group commit). Nothing is delayed to gather more, since others gather while a
sync is under way. The queue is bounded by the credit of publishers, who get none for messages that are not durable.

When there is no space the commits keep their order and are tried again every second. Trims and named values are made
durable ahead of them. Only trims make room, and only subscribers that come forward make trims possible. A durable
subscription comes forward when its claim is durable, which is a named value: if that waited behind the messages, they
would wait for each other.

A shell writes what ``begin_next`` answers, and says how that ended: ``on_durable``, ``on_gone_ahead`` or ``on_full``. A
store that fails in any other way ends the life of the broker, and its queue with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

from penstock.broker.durable import Append, Change, ForgetPublishers, SetValue, Trim, space_bytes
from penstock.broker.effects import Commit
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
    "ValuesKept",
    "body_bytes",
]

GROUP_BYTES_MAX: Final = 8 << 20
"""Bodies and large records in one group, unless a single commit has more. The live store's reserve counts on it."""
RETRY_MS: Final = 1_000
"""How often a commit that found no space is tried again."""

_GROUP_MAX: Final = 1 << 16
"""Commits in one group, if there is space for all."""


@dataclass(slots=True, frozen=True)
class Group:
    """Commits that become durable together, by one sync."""

    commits: tuple[Commit, ...]
    size_bytes: int

    def changes(self) -> list[Change]:
        """All that is to be written, in order."""
        return [change for commit in self.commits for change in commit.changes]


@dataclass(slots=True, frozen=True)
class Ahead:
    """Trims and named values of commits that wait for space, to be made durable before those commits."""

    trims: tuple[Trim, ...]
    """One for each pubend; none beyond messages that wait too, which could not be appended any more."""
    values: tuple[SetValue, ...]
    number: int
    """The last commit from which they were taken."""
    refused: int
    """How many commits the group had for which there was no space."""
    reason: str
    """Why there was none."""

    def changes(self) -> list[Change]:
        """All that is to be written, in order."""
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


class CommitQueue:
    """The commits of one life of a broker that are not durable yet, and which of them to write next."""

    def __init__(self, *, retry_ms: int = RETRY_MS) -> None:
        self.under_way: Group | Ahead | None = None
        """What the shell is writing; commits in it still count as not durable."""
        self.full_reason = ""
        """Why commits wait for space; empty if they do not."""
        self._retry_ms = retry_ms
        self._waiting: deque[Commit] = deque()
        self._ahead: Ahead | None = None
        self._group_max = _GROUP_MAX
        self._begin_at_ms = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, commit: Commit) -> None:
        """Make it durable after all earlier ones."""
        if self._waiting:
            last = self._waiting[-1].number
            assert last < commit.number, f"commit {commit.number} comes after commit {last}"
        self._waiting.append(commit)
        if self._begin_at_ms and _can_go_ahead([commit]):
            self.try_at_once()

    def try_at_once(self) -> None:
        """Do not wait any longer for space: there may be some, or no time left to wait."""
        self._begin_at_ms = 0

    def next_deadline(self) -> int | None:
        """The time from which ``begin_next`` has an answer, zero for at once; None if only ``put`` can change that."""
        if self.under_way is not None or not self._waiting:
            return None
        return self._begin_at_ms

    def begin_next(self, *, now_ms: int) -> Group | Ahead | None:
        """What the shell is to write now, as one commit of its store; None if there is nothing to do yet."""
        assert self.under_way is None, f"{self.under_way} is still under way"
        if not self._waiting or now_ms < self._begin_at_ms:
            return None
        self.under_way = self._ahead if self._ahead is not None else self._next_group()
        self._ahead = None
        self._begin_at_ms = 0
        return self.under_way

    def on_durable(self) -> list[QueueReport]:
        """The group is durable."""
        group = self._ended()
        assert isinstance(group, Group), f"{group} is no group"
        for _ in group.commits:
            self._waiting.popleft()
        self.full_reason = ""
        self._group_max = min(2 * self._group_max, _GROUP_MAX)
        return [Committed(group.commits[-1].number, len(group.commits), group.size_bytes)]

    def on_gone_ahead(self, *, has_made_room: bool, now_ms: int) -> list[QueueReport]:
        """Trims and values are durable; by the trims there is more room, or there is not."""
        ahead = self._ended()
        assert isinstance(ahead, Ahead), f"{ahead} does not go ahead"
        reports: list[QueueReport] = []
        if ahead.values:
            # An older value must not replace a newer one later. Those that came meanwhile did not go ahead.
            self._waiting = deque(_without_values(each, up_to=ahead.number) for each in self._waiting)
            reports.append(ValuesKept(ahead.number))
        if not has_made_room:
            reports += self._try_fewer(ahead.refused, ahead.reason, self._newer_than(ahead), now_ms=now_ms)
        return reports

    def on_full(self, reason: str, *, now_ms: int) -> list[QueueReport]:
        """There is no space for what was under way, and nothing of it was written."""
        refused = self._ended()
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

    def _ended(self) -> Group | Ahead:
        ended = self.under_way
        assert ended is not None, "nothing is under way"
        self.under_way = None
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
            # Within one commit of the store publishers are forgotten last: later ones must not come before that.
            if any(isinstance(each, ForgetPublishers) for each in commit.changes):
                break
        return Group(tuple(commits), size_bytes)

    def _try_fewer(self, refused: int, reason: str, newer: list[Commit], *, now_ms: int) -> list[QueueReport]:
        """The first commits of a group may fit where all do not; a single one has to wait."""
        self._group_max = max(1, refused // 2)
        if refused > 1:
            return []
        is_news = not self.full_reason
        self.full_reason = reason
        # What came while others went ahead may make room as well.
        if not _can_go_ahead(newer):
            self._begin_at_ms = now_ms + self._retry_ms
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
