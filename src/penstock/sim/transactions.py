"""The transactions of homes and their candidates in a shared database: commits, reads, and changes of who holds a home.

A commit compares the epoch under a lock that taking the home conflicts with and renewing it does not, and it compares
how many commits there were, so that one which was given up and is repeated cannot happen twice. A read compares both in
what it sees: a former primary that came back has the epoch, and lacks what was committed since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.broker.durable import Change
from penstock.sim.database import Backend, Content, Doubtful, Record, Row
from penstock.sim.process import Waiting

__all__ = [
    "ChangeRow",
    "CommitChanges",
    "Done",
    "Evict",
    "Fenced",
    "Found",
    "Look",
    "Looked",
    "Passed",
    "ReadContent",
    "Settle",
    "Settled",
    "Tell",
    "breach_of",
]

_CONTENT: Final = "content"
_ROW: Final = "row"


@dataclass(slots=True, frozen=True)
class Done:
    """The change is made."""


@dataclass(slots=True, frozen=True)
class Fenced:
    """The home has another epoch: it belongs to somebody else."""


@dataclass(slots=True, frozen=True)
class Passed:
    """The database has another number of commits than expected, and nothing was done."""


@dataclass(slots=True, frozen=True)
class Found:
    """What a read found."""

    value: Any


@dataclass(slots=True, frozen=True)
class Settled:
    """How many commits there were; all of them are as durable as commits ever are."""

    commits: int


@dataclass(slots=True, frozen=True)
class Looked:
    """A row, and the time by the clock of the server that has it."""

    row: Row
    now_ms: int


@dataclass(slots=True, frozen=True)
class CommitChanges:
    """The commit of a home with this number."""

    home: str
    epoch: int
    number: int
    changes: tuple[Change, ...]

    def steps(self, backend: Backend) -> Waiting[Done | Fenced | Passed | Doubtful]:
        """Carry it out."""
        server = backend.server
        yield server.locked(self.home, _CONTENT, backend)
        content = server.contents[self.home]
        if _is_fenced(content, self.epoch):
            return Fenced()
        if content.commits != self.number - 1:
            return Passed()
        doubt = yield from server.written(backend, Record(self.home, self.changes, self.number))
        return doubt or Done()


@dataclass(slots=True, frozen=True)
class Settle:
    """Asks how many commits there were, when nothing that was begun before can happen any more.

    It writes, and waits for the standby: what it finds may be known to this server alone, which may not be the primary
    any more without knowing it.
    """

    home: str
    epoch: int

    def steps(self, backend: Backend) -> Waiting[Settled | Fenced | Doubtful]:
        """Carry it out."""
        server = backend.server
        yield server.locked(self.home, _CONTENT, backend)
        content = server.contents[self.home]
        if _is_fenced(content, self.epoch):
            return Fenced()
        commits = content.commits
        doubt = yield from server.written(backend, Record(self.home))
        return doubt or Settled(commits)


@dataclass(slots=True, frozen=True)
class ReadContent:
    """Reads what a home has."""

    home: str
    epoch: int
    commits: int
    """How many commits there must be at least, or it would find silence where messages are."""
    read: Callable[[Content], Any]

    def steps(self, backend: Backend) -> Waiting[Found | Fenced | Passed]:
        """Carry it out."""
        server = backend.server
        yield server.works(server.work_us)
        content = server.contents[self.home]
        if content.row.epoch != self.epoch:
            return Fenced()
        if content.commits < self.commits:
            return Passed()
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

    def steps(self, backend: Backend) -> Waiting[Row | Passed | Doubtful]:
        """Carry it out; returns the new row."""
        server = backend.server
        yield server.locked(self.home, _ROW, backend)
        if self.raises_epoch:
            yield server.locked(self.home, _CONTENT, backend)
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


def breach_of(transaction: object, answer: object, epoch: int) -> str:
    """How an answer breaks the law of epochs, judged after the transaction; empty if it does not."""
    if not isinstance(transaction, CommitChanges | ReadContent) or not isinstance(answer, Done | Found):
        return ""
    if transaction.epoch == epoch:
        return ""
    return f"the database answered what {transaction.home} asked in epoch {transaction.epoch}, in epoch {epoch}"


def _is_fenced(content: Content, epoch: int) -> bool:
    """Whether a home has another epoch than the one in which somebody commits to it."""
    return content.row.epoch != epoch
