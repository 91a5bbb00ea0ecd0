"""The stored rows of publishers: those written last stay in memory, since every commit must know what it replaces.

A row that is replaced takes its checksum out of the totals. Reading it from the database first would make a commit of
many publishers twice as slow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from penstock.live.store.errors import StoreFailedError
from penstock.live.store.totals import ROW_ERRORS, publisher_checksum

__all__ = ["PUBLISHERS_MAX", "PublisherRow", "Publishers", "check_row", "padded_count"]

PUBLISHERS_MAX: Final = 16_384
"""Rows that are remembered, some 4 MB; others are read when they are replaced."""

PublisherRow = tuple[int, int, int]
"""Sequence number, tick and checksum."""
_Key = tuple[int, bytes]


class Publishers:
    """Rows of publishers as of the last durable commit, those that were written last."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._known: dict[_Key, PublisherRow] = {}

    def former(self, rows: Sequence[tuple[int, bytes, int, int]]) -> dict[_Key, PublisherRow]:
        """What is stored of the publishers in these rows, by pubend and publisher."""
        known = self._known
        found = {key: known[key] for row in rows if (key := row[:2]) in known}
        if len(found) < len(rows):
            found |= self._read([row[:2] for row in rows if row[:2] not in found])
        return found

    def adopt(self, written: Mapping[_Key, PublisherRow | None]) -> None:
        """A commit with these rows is durable; None for a row that was dropped."""
        known = self._known
        for key, row in written.items():
            # Behind all others, so that those that were written longest ago come first.
            known.pop(key, None)
            if row is not None:
                known[key] = row
        while len(known) > PUBLISHERS_MAX:
            del known[next(iter(known))]

    def _read(self, keys: list[_Key]) -> dict[_Key, PublisherRow]:
        # The last key repeated does no harm, and leaves few different statements, which SQLite keeps prepared.
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
