"""Reads the stored messages of one pubend from PostgreSQL."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from penstock.live.postgres.fenced import FencedConnection
from penstock.live.store.batch import BatchDamagedError
from penstock.live.store.errors import CorruptRecordError
from penstock.live.store.pubend_state import signed, unsigned
from penstock.live.store.reading import BatchReader, StoredBatch, checked_messages
from penstock.model.tick import Tick, TickRange

__all__ = ["BatchesReader"]

_PAGE: Final = 64
"""Rows of the index in one answer."""
_BEFORE: Final = (
    "SELECT first FROM penstock.batches WHERE store = %(store)s AND pubend = %(pubend)s AND first <= %(first)s "
    "ORDER BY first DESC LIMIT 1"
)
_ROWS: Final = (
    "SELECT first, last, messages, bytes FROM penstock.batches "
    "WHERE store = %(store)s AND pubend = %(pubend)s AND first BETWEEN %(first)s AND %(last)s "
    "ORDER BY first LIMIT %(page)s"
)
_BODY: Final = "SELECT body FROM penstock.batches WHERE store = %(store)s AND pubend = %(pubend)s AND first = %(first)s"


class BatchesReader(BatchReader[StoredBatch]):
    """Reads the log of one pubend, by its number in the tables."""

    def __init__(self, connection: FencedConnection, pubend: str, number: int) -> None:
        self._connection = connection
        self._pubend, self._number = pubend, number

    def batches(self, first_tick: Tick, last_tick: Tick) -> Generator[StoredBatch, None, None]:
        """The stored batches that may have messages with these ticks, in order."""
        if first_tick > last_tick:
            return
        # The batch that begins before the first tick may reach beyond it.
        before = self._connection.rows(_BEFORE, pubend=self._number, first=signed(first_tick))
        lowest = before[0][0] if before else signed(first_tick)
        highest = signed(last_tick)
        while lowest <= highest:
            rows = self._connection.rows(_ROWS, pubend=self._number, first=lowest, last=highest, page=_PAGE)
            for first, last, messages, size_bytes in sorted(rows):
                if unsigned(last) >= first_tick:
                    yield StoredBatch(TickRange(unsigned(first), unsigned(last)), messages, size_bytes)
                lowest = first + 1
            if len(rows) < _PAGE:
                return

    def unpacked(self, batch: StoredBatch) -> list[tuple[Tick, bytes]]:
        """The messages of a batch; raises ``CorruptRecordError`` if they are damaged."""
        found = self._connection.rows(_BODY, pubend=self._number, first=signed(batch.ticks.first))
        try:
            if not found:
                raise BatchDamagedError("it is gone")
            return checked_messages(batch, found[0][0])
        except BatchDamagedError as error:
            raise CorruptRecordError(self._pubend, batch.ticks, batch.message_count) from error
