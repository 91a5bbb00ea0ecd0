"""What a store knows of a pubend without reading its log: bounds, lease and totals.

The totals are counted when the store is opened, from the index of batches, and kept up by every commit: no number on
disk can come to disagree with what is stored.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from penstock.model.tick import TICK_MIN, Tick

__all__ = ["PubendState", "load_states", "signed", "unsigned"]

_OFFSET = 2**63

# Batches that are out of order or overlap: the index has no checksums, but most damage to it shows here.
_DISORDER = """
SELECT count(*) FROM (
    SELECT first, last, messages, lag(last) OVER (PARTITION BY pubend ORDER BY first) AS before FROM batches
) WHERE first > last OR first <= before OR messages NOT BETWEEN 1 AND last - first + 1
"""


@dataclass(slots=True)
class PubendState:
    """Bounds, lease and totals of a pubend's log."""

    number: int = 0
    """Its key in the tables; 0 while it has no row."""
    lease: Tick | None = None
    first_tick: Tick | None = None
    last_tick: Tick | None = None
    trimmed_below: Tick = TICK_MIN
    message_count: int = 0
    size_bytes: int = 0

    @property
    def next_tick(self) -> int:
        """The lowest tick that the next message may have."""
        return self.trimmed_below if self.last_tick is None else max(self.trimmed_below, self.last_tick + 1)


def load_states(database: sqlite3.Connection) -> dict[str, PubendState]:
    """The states of all pubends, by name; raises LookupError if the index cannot be right."""
    (disorder,) = database.execute(_DISORDER).fetchone()
    if disorder:
        raise LookupError(f"{disorder} batches are out of order")
    states: dict[str, PubendState] = {}
    for number, name, lease, last, trimmed in database.execute(
        "SELECT number, name, lease, last, trimmed FROM pubends"
    ):
        states[name] = PubendState(number, _tick(lease), None, _tick(last), unsigned(trimmed))
    totals = "SELECT pubend, min(first), max(last), sum(messages), sum(bytes) FROM batches GROUP BY pubend"
    by_number = {state.number: state for state in states.values()}
    for number, first, last, messages, size_bytes in database.execute(totals):
        state = by_number[number]
        state.first_tick, state.last_tick = unsigned(first), unsigned(last)
        state.message_count, state.size_bytes = messages, size_bytes
    return states


def signed(tick: int) -> int:
    """A tick as SQLite can store it, in the same order: it has no unsigned integers."""
    return tick - _OFFSET


def unsigned(stored: int) -> Tick:
    """The tick that was stored."""
    return Tick(stored + _OFFSET)


def _tick(stored: int | None) -> Tick | None:
    return None if stored is None else unsigned(stored)
