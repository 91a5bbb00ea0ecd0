"""What a broker asks its shell to do. There is little: bytes move by taking frames out of outboxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Close", "Effect", "Record", "Wake"]


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
class Record:
    """Something happened that an operator may want to read, or a test to check."""

    event: str
    fields: tuple[tuple[str, str | int], ...] = ()


Effect: TypeAlias = Wake | Close | Record
