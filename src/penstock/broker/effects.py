"""What a broker asks its shell to do. There is little: bytes move by taking frames out of outboxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.broker.durable import Change

__all__ = ["Close", "Commit", "Effect", "Hold", "Operate", "ReadKept", "ReadLog", "Record", "Resume", "Wake"]


@dataclass(slots=True, frozen=True)
class Wake:
    """The connection's outbox has something to send: take it out as soon as the connection can carry it."""

    connection: int


@dataclass(slots=True, frozen=True)
class Close:
    """End the connection, after sending what its outbox still holds; it must not be heard of again."""

    connection: int
    code: str
    reason: str


@dataclass(slots=True, frozen=True)
class Hold:
    """Hand in nothing more of this connection until ``Resume``; what is handed in all the same has to wait inside."""

    connection: int


@dataclass(slots=True, frozen=True)
class Resume:
    """Go on with a connection that was held."""

    connection: int


@dataclass(slots=True, frozen=True)
class Record:
    """Something happened that an operator may want to read, or a test to check."""

    event: str
    fields: tuple[tuple[str, str | int], ...] = ()


@dataclass(slots=True, frozen=True)
class Commit:
    """Make these changes durable together, in the order of their numbers, and then say ``committed``.

    Several may be made durable by one sync. When there is no space the shell says ``log_full`` and tries again by
    itself, until it can say ``committed`` after all.
    """

    number: int
    changes: tuple[Change, ...]


@dataclass(slots=True, frozen=True)
class ReadLog:
    """Read messages of a pubend with these ticks, up to so many bytes but at least one, and say ``log_read``."""

    number: int
    pubend: str
    first: int
    last: int
    bytes_max: int


@dataclass(slots=True, frozen=True)
class ReadKept:
    """Read kept records, and say ``kept_read`` with as many of the first ones as ``KEPT_READ_BYTES_MAX`` allows.

    At least one is in the answer if any was asked for, with None where there is none or it is damaged. Reads are
    answered in their order, with what is durable by then: a commit that still waits may not count yet.
    """

    number: int
    names: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Operate:
    """The token is here: do what heavy work waits, until that time, and then say ``operated`` with its number."""

    fence: str
    until_ms: int


Effect: TypeAlias = Wake | Close | Hold | Resume | Record | Commit | ReadLog | ReadKept | Operate
