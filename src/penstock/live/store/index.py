"""Reads the index of a store, everything but messages and kept records, and checks it against the totals.

The index must be right as a whole: with a wrong one a broker would use ticks twice, mistake messages for silence, or
accept a message twice. So every row is checked when a store is opened, before anything in the files is changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.live.store.pubend_state import PubendState, unsigned, unsigned_or_none
from penstock.live.store.totals import (
    ROW_ERRORS,
    Tally,
    Totals,
    batch_checksum,
    load_totals,
    named_checksum,
    pubend_checksum,
    publisher_checksum,
    row_problem,
    schema_checksum,
)

__all__ = ["Index", "read_index"]


@dataclass(slots=True)
class Index:
    """The content of the index, and what is wrong with it."""

    totals: Totals = field(default_factory=Totals)
    states: dict[str, PubendState] = field(default_factory=dict)
    """The states of all pubends, by name."""
    problems: list[str] = field(default_factory=list)
    """Descriptions of the damage; if there is any, the rest must not be used."""


def read_index(database: sqlite3.Connection) -> Index:
    """Read and check the whole index."""
    index = Index()
    totals = _checked_totals(database, index.problems)
    if totals is None:
        return index
    index.totals = totals
    readers: dict[str, Callable[[sqlite3.Connection, Index, Tally], None]] = {
        "pubends": _read_pubends,
        "batches": _read_batches,
        "publishers": _read_publishers,
        "named": _read_named,
    }
    tallies = totals.tallies()
    for table, read in readers.items():
        found = Tally()
        try:
            read(database, index, found)
        except (*ROW_ERRORS, LookupError) as error:
            index.problems.append(f"table {table} is damaged: {row_problem(error)}")
            continue
        if found != tallies[table]:
            expected = tallies[table].rows
            index.problems.append(f"table {table} has {found.rows:,} rows that are not the {expected:,} written last")
    return index


def _checked_totals(database: sqlite3.Connection, problems: list[str]) -> Totals | None:
    try:
        totals = load_totals(database)
        if totals is None:
            problems.append("the totals are damaged")
        elif schema_checksum(database) != totals.schema:
            problems.append("the definitions of the tables or the owner are damaged")
    except ROW_ERRORS as error:
        problems.append(f"the totals cannot be read: {row_problem(error)}")
        return None
    return totals


def _read_pubends(database: sqlite3.Connection, index: Index, found: Tally) -> None:
    query = "SELECT number, name, lease, last, trimmed, checksum FROM pubends"
    for number, name, lease, last, trimmed, checksum in database.execute(query):
        if pubend_checksum(number, name, lease, last, trimmed) != checksum:
            raise LookupError(f"the row of pubend {name!r} was changed")
        found.add(checksum)
        state = PubendState(number, checksum, unsigned_or_none(lease), None, unsigned_or_none(last), unsigned(trimmed))
        index.states[name] = state


def _read_batches(database: sqlite3.Connection, index: Index, found: Tally) -> None:
    states = {state.number: state for state in index.states.values()}
    query = "SELECT pubend, first, last, messages, bytes, place, body, checksum FROM batches ORDER BY pubend, first"
    for *columns, checksum in database.execute(query):
        pubend, first, last, messages, size_bytes, _, _ = row = tuple(columns)
        if batch_checksum(row) != checksum:
            raise LookupError(f"the row at {first} of pubend number {pubend} was changed")
        found.add(checksum)
        state = states[pubend]
        if first > last or (state.first_tick is not None and unsigned(first) <= (state.last_tick or 0)):
            raise LookupError(f"the row at {first} of pubend number {pubend} is out of order")
        if state.first_tick is None:
            state.first_tick = unsigned(first)
        state.last_tick = unsigned(last)
        state.message_count += messages
        state.size_bytes += size_bytes


def _read_publishers(database: sqlite3.Connection, _index: Index, found: Tally) -> None:
    query = "SELECT pubend, publisher, sequence, tick, checksum FROM publishers"
    for pubend, publisher, sequence, tick, checksum in database.execute(query):
        if publisher_checksum(pubend, publisher, sequence, tick) != checksum:
            raise LookupError(f"the row of publisher {publisher!r} was changed")
        found.add(checksum)


def _read_named(database: sqlite3.Connection, _index: Index, found: Tally) -> None:
    for name, stored in database.execute("SELECT name, stored FROM named"):
        found.add(named_checksum(name, stored))
