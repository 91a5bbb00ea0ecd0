"""The effects that a broker asks of its shell. They are few, because the shell takes frames out of outboxes itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.broker.durable import Change

__all__ = ["Close", "Commit", "Effect", "EndLife", "Hold", "Operate", "ReadKept", "ReadLog", "Record", "Resume", "Wake"]


@dataclass(slots=True, frozen=True)
class Wake:
    """The connection's outbox has frames to send: take them as soon as the connection can carry them."""

    connection: int


@dataclass(slots=True, frozen=True)
class Close:
    """Close the connection after sending what is left in its outbox, and report nothing more about it."""

    connection: int
    code: str
    reason: str


@dataclass(slots=True, frozen=True)
class Hold:
    """Deliver no more frames of this connection until ``Resume``; the broker buffers those that come anyway."""

    connection: int


@dataclass(slots=True, frozen=True)
class Resume:
    """Deliver frames of a held connection again."""

    connection: int


@dataclass(slots=True, frozen=True)
class Record:
    """Something happened that an operator may want to read, or a test to check."""

    event: str
    fields: tuple[tuple[str, str | int], ...] = ()


@dataclass(slots=True, frozen=True)
class Commit:
    """Make these changes durable together, after all commits with lower numbers, then call ``committed``.

    One sync may cover several commits. When there is no space the shell calls ``log_full`` and retries by itself, until
    it can call ``committed`` after all.
    """

    number: int
    changes: tuple[Change, ...]


@dataclass(slots=True, frozen=True)
class ReadLog:
    """Read a pubend's messages with these ticks, up to this many bytes but at least one, then call ``log_read``."""

    number: int
    pubend: str
    first: int
    last: int
    bytes_max: int


@dataclass(slots=True, frozen=True)
class ReadKept:
    """Read kept records, then call ``kept_read`` with as many of the first ones as ``KEPT_READ_BYTES_MAX`` allows.

    The answer has at least one if any was requested, with None for a record that is missing or damaged. Reads are
    answered in order, from what is durable at that moment: a commit that is still waiting may not count yet.
    """

    number: int
    names: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Operate:
    """The token is here: do pending heavy work until that time, then call ``operated`` with this fence."""

    fence: str
    until_ms: int


@dataclass(slots=True, frozen=True)
class EndLife:
    """End this life of the broker at once: a later one runs elsewhere, and only that one speaks for it."""

    reason: str


Effect: TypeAlias = Wake | Close | Hold | Resume | Record | Commit | ReadLog | ReadKept | Operate | EndLife
