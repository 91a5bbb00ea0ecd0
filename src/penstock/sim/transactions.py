"""The transactions of homes and their candidates in a shared database: commits, reads, and changes of who holds a home.

A commit compares the epoch under a lock that taking the home conflicts with and renewing it does not, and it compares
how many commits there were, so that one which was given up and is repeated cannot happen twice. A read compares the
epoch in what it sees. With the epoch goes the life that took it: a database that has lost a take-over gives the same
epoch away again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.broker.durable import Change
from penstock.sim.database import Backend, Content, Doubtful, Record, Row, TimedOut
from penstock.sim.process import Waiting

__all__ = [
    "ChangeRow",
    "CommitChanges",
    "CountCommits",
    "Counted",
    "Done",
    "Evict",
    "Fenced",
    "Found",
    "Look",
    "Looked",
    "Passed",
    "ProveCommit",
    "ReadContent",
    "Tell",
    "Tenure",
    "breach_of",
]

_CONTENT: Final = "content"
_ROW: Final = "row"


@dataclass(slots=True, frozen=True)
class Tenure:
    """What a process has: a home, in an epoch."""

    home: str
    epoch: int
    life: str
    """Which process took it."""


@dataclass(slots=True, frozen=True)
class Done:
    """The change is made."""


@dataclass(slots=True, frozen=True)
class Fenced:
    """The epoch of the home is another one, or another life's: the home belongs to somebody else."""


@dataclass(slots=True, frozen=True)
class Passed:
    """The database has another number of commits than expected, and nothing was done."""


@dataclass(slots=True, frozen=True)
class Found:
    """What a read found."""

    value: Any


@dataclass(slots=True, frozen=True)
class Counted:
    """How many commits a server sees, and the mark of the latest one."""

    commits: int
    mark: int


@dataclass(slots=True, frozen=True)
class Looked:
    """A row, and the time by the clock of the server that has it."""

    row: Row
    now_ms: int


@dataclass(slots=True, frozen=True)
class CommitChanges:
    """The commit of a home with this number."""

    tenure: Tenure
    number: int
    mark: int
    """No other commit has it: another process may have made as many commits."""
    changes: tuple[Change, ...]

    def steps(self, backend: Backend) -> Waiting[Done | Fenced | Passed | TimedOut | Doubtful]:
        """Carry it out."""
        server, home = backend.server, self.tenure.home
        late: TimedOut | None = yield server.locked(home, _CONTENT, backend)
        if late:
            return late
        content = server.contents[home]
        if _is_fenced(content, self.tenure):
            return Fenced()
        if content.commits != self.number - 1:
            return Passed()
        doubt = yield from server.written(backend, Record(home, self.changes, self.number, self.mark))
        return doubt or Done()


@dataclass(slots=True, frozen=True)
class ProveCommit:
    """The latest commit again, without its changes: once the standby has this record, it has that one, too."""

    tenure: Tenure
    number: int
    mark: int

    def steps(self, backend: Backend) -> Waiting[Done | Fenced | Passed | TimedOut | Doubtful]:
        """Carry it out."""
        server, home = backend.server, self.tenure.home
        late: TimedOut | None = yield server.locked(home, _CONTENT, backend)
        if late:
            return late
        content = server.contents[home]
        if _is_fenced(content, self.tenure):
            return Fenced()
        if (content.commits, content.mark) != (self.number, self.mark):
            return Passed()
        doubt = yield from server.written(backend, Record(home, (), self.number, self.mark))
        return doubt or Done()


@dataclass(slots=True, frozen=True)
class CountCommits:
    """Asks how many commits of a home a server sees: some of them may be known to this server alone."""

    home: str

    def steps(self, backend: Backend) -> Waiting[Counted]:
        """Carry it out."""
        server = backend.server
        yield server.works(server.work_us)
        content = server.contents[self.home]
        return Counted(content.commits, content.mark)


@dataclass(slots=True, frozen=True)
class ReadContent:
    """Reads what a home has."""

    tenure: Tenure
    read: Callable[[Content], Any]

    def steps(self, backend: Backend) -> Waiting[Found | Fenced]:
        """Carry it out."""
        server = backend.server
        yield server.works(server.work_us)
        content = server.contents[self.tenure.home]
        if _is_fenced(content, self.tenure):
            return Fenced()
        return Found(self.read(content))


@dataclass(slots=True, frozen=True)
class Look:
    """Reads who holds a home."""

    home: str

    def steps(self, backend: Backend) -> Waiting[Looked]:
        """Carry it out."""
        server = backend.server
        yield server.works(server.work_us)
        return Looked(server.contents[self.home].row, server.now_ms)


@dataclass(slots=True, frozen=True)
class ChangeRow:
    """Changes who holds a home, if the row is as expected."""

    home: str
    is_expected: Callable[[Row], bool]
    changed: Callable[[Row, int], Row]
    """The new row, from the old one and the time by the server's clock."""
    raises_epoch: bool = False
    """If so, it conflicts with commits."""

    def steps(self, backend: Backend) -> Waiting[Row | Passed | TimedOut | Doubtful]:
        """Carry it out; returns the new row."""
        server = backend.server
        for part in (_ROW, _CONTENT) if self.raises_epoch else (_ROW,):
            late: TimedOut | None = yield server.locked(self.home, part, backend)
            if late:
                return late
        row = server.contents[self.home].row
        if not self.is_expected(row):
            return Passed()
        new = self.changed(row, server.now_ms)
        doubt = yield from server.written(backend, Record(self.home, row=new))
        return doubt or new


@dataclass(slots=True, frozen=True)
class Evict:
    """Ends the connections of an application."""

    application: str

    def steps(self, backend: Backend) -> Waiting[Done]:
        """Carry it out."""
        yield backend.server.works(backend.server.work_us)
        backend.server.evict(self.application)
        return Done()


@dataclass(slots=True, frozen=True)
class Tell:
    """Tells all candidates that there is news of a home."""

    home: str

    def steps(self, backend: Backend) -> Waiting[Done]:
        """Carry it out."""
        yield backend.server.works(backend.server.work_us)
        backend.server.tell(self.home)
        return Done()


def breach_of(transaction: object, answer: object, row: Row) -> str:
    """How an answer breaks the law of epochs, judged by the row after the transaction; empty if it does not."""
    if not isinstance(transaction, CommitChanges | ProveCommit | ReadContent) or not isinstance(answer, Done | Found):
        return ""
    tenure = transaction.tenure
    if (tenure.epoch, tenure.life) == (row.epoch, row.life):
        return ""
    return (
        f"the database answered what {tenure.home} asked in epoch {tenure.epoch} of {tenure.life or 'nobody'}, "
        f"in epoch {row.epoch} of {row.life or 'nobody'}"
    )


def _is_fenced(content: Content, tenure: Tenure) -> bool:
    """Whether a home belongs to somebody else than who commits to it or reads it."""
    return (content.row.epoch, content.row.life) != (tenure.epoch, tenure.life)
