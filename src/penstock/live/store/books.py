"""Keeps the totals of an open store, in the database with every commit and in the witness after it."""

from __future__ import annotations

import sqlite3

from penstock.live.store.totals import Totals
from penstock.live.store.witness import Witness

__all__ = ["Books"]


class Books:
    """The totals as of the last durable commit, and where they are written."""

    def __init__(self, database: sqlite3.Connection, totals: Totals, witness: Witness) -> None:
        self._database, self._witness = database, witness
        self.totals = totals

    def write(self, totals: Totals) -> None:
        """Write new totals, within the transaction they belong to."""
        self._database.execute("UPDATE totals SET stored=? WHERE rowid=1", (totals.encode(),))

    def adopt(self, totals: Totals) -> None:
        """Take over totals whose transaction is durable."""
        self.totals = totals
        self._witness.note(totals)

    def close(self) -> None:
        """Unlock the folder."""
        self._witness.close()
