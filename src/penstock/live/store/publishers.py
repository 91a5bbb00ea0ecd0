"""Caches the stored rows of publishers that were written last, since every commit must know which rows it replaces.

The checksum of a replaced row is taken out of the totals. Reading the row from the database first would make a commit
of many publishers twice as slow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from penstock.live.store.errors import StoreFailedError
from penstock.live.store.totals import ROW_ERRORS, publisher_checksum
from penstock.model.tick import Tick

__all__ = ["PUBLISHERS_MAX", "PublisherKey", "PublisherMark", "PublisherRow", "Publishers", "check_row", "padded_count"]

PUBLISHERS_MAX: Final = 16_384
"""Rows that are kept in memory, some 4 MB; others are read when they are replaced."""

_ROWS_MAX: Final = 128
"""Rows that one statement reads; a power of two."""

PublisherRow = tuple[int, int, int]
"""Sequence number, tick and checksum."""
PublisherKey = tuple[int, bytes]
"""Number of the pubend, and the publisher."""


class PublisherMark(NamedTuple):
    """What a store remembers of one publisher to a pubend."""

    tick: Tick
    """The tick by which the publisher is forgotten: that of its newest message."""
    publisher: bytes
    sequence: int


class Publishers:
    """Rows of publishers as of the last durable commit."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._known: dict[PublisherKey, PublisherRow] = {}

    def known(self, keys: Collection[PublisherKey]) -> Mapping[PublisherKey, PublisherRow]:
        """The stored rows of these publishers, and of others; to be called before any of them is written."""
        # Not a difference of sets, which would go through all rows in memory.
        missing = [key for key in keys if key not in self._known]
        for start in range(0, len(missing), _ROWS_MAX):
            self._known |= self._read(missing[start : start + _ROWS_MAX])
        return self._known

    def adopt(self, written: Mapping[PublisherKey, PublisherRow | None]) -> None:
        """Take over the rows of a durable commit; None for a row that was dropped."""
        known = self._known
        for key, row in written.items():
            if row is None:
                known.pop(key, None)
            else:
                known[key] = row
        while len(known) > PUBLISHERS_MAX:
            del known[next(iter(known))]

    def _read(self, keys: list[PublisherKey]) -> dict[PublisherKey, PublisherRow]:
        # Repeating the last key does no harm, and makes for few different statements, which SQLite keeps prepared.
        padded = keys + keys[-1:] * (padded_count(len(keys)) - len(keys))
        values = [value for key in padded for value in key]
        found = self._database.execute(_select(len(padded)), values).fetchall()
        for *row, checksum in found:
            check_row(publisher_checksum, tuple(row), checksum)
        return {
            (pubend, publisher): (sequence, tick, checksum) for pubend, publisher, sequence, tick, checksum in found
        }


@cache
def _select(rows: int) -> str:
    return (
        f"WITH asked (pubend, publisher) AS (VALUES {', '.join(['(?, ?)'] * rows)}) "  # noqa: S608 - question marks
        "SELECT former.pubend, former.publisher, sequence, tick, checksum FROM asked CROSS JOIN publishers AS former "
        "ON former.pubend=asked.pubend AND former.publisher=asked.publisher"
    )


def padded_count(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()


def check_row(checksum_of: Callable[..., int], row: tuple[Any, ...], checksum: int) -> None:
    """Raise if a row of the index is not what was written."""
    try:
        if checksum_of(*row) == checksum:
            return
    except ROW_ERRORS:
        pass
    raise StoreFailedError("a row of the index is damaged: open the store anew, which says what to do")
