"""Writes the changes of one commit to PostgreSQL, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.broker.durable import (
    Append,
    Change,
    ForgetPublishers,
    KeepRecord,
    SetValue,
    Trim,
    needed_at_start,
)
from penstock.live.postgres.connecting import Connection
from penstock.live.store.batch import BatchDamagedError, pack_batch, unpack_batch
from penstock.live.store.gathered import Gathered, Message, cut
from penstock.live.store.pubend_state import PubendState, signed, unsigned
from penstock.live.store.sealed import seal
from penstock.model.tick import TICK_MIN

__all__ = ["Writing"]

_PUT_PUBEND = (
    "INSERT INTO penstock.pubends VALUES (%(store)s, %(number)s, %(name)s, %(lease)s, %(last)s, %(trimmed)s) "
    "ON CONFLICT (store, number) DO UPDATE SET lease = excluded.lease, last = excluded.last, trimmed = excluded.trimmed"
)
_PUT_BATCH = "INSERT INTO penstock.batches VALUES (%s, %s, %s, %s, %s, %s, %b)"
_PUT_PUBLISHERS = (
    "INSERT INTO penstock.publishers AS former SELECT %s, * "
    "FROM unnest(%b::integer[], %b::bytea[], %b::bigint[], %b::bigint[]) "
    "ON CONFLICT (store, pubend, publisher) DO UPDATE "
    "SET sequence = greatest(former.sequence, excluded.sequence), tick = greatest(former.tick, excluded.tick)"
)
_FORGET = "DELETE FROM penstock.publishers WHERE store = %s AND pubend = %s AND tick < %s"
_SET = "INSERT INTO penstock.named VALUES (%s, %s, %b) ON CONFLICT (store, name) DO UPDATE SET stored = excluded.stored"
_UNSET = "DELETE FROM penstock.named WHERE store = %s AND name = %s"
_KEEP = (
    "INSERT INTO penstock.kept SELECT %s, * FROM unnest(%b::text[], %b::bigint[], %b::bytea[], %b::bytea[]) "
    "ON CONFLICT (store, name) DO UPDATE "
    "SET place = excluded.place, start = excluded.start, stored = excluded.stored"
)
_DROP = "DELETE FROM penstock.kept WHERE store = %s AND name = ANY(%b)"
_BELOW = (
    "SELECT first, last, messages, bytes FROM penstock.batches WHERE store = %s AND pubend = %s AND first < %s "
    "ORDER BY first LIMIT %s"
)
_BODY = "SELECT body FROM penstock.batches WHERE store = %s AND pubend = %s AND first = %s"
_DROP_BATCHES = "DELETE FROM penstock.batches WHERE store = %s AND pubend = %s AND first BETWEEN %s AND %s"
_BEGIN_LATER = "UPDATE penstock.batches SET first = %s WHERE store = %s AND pubend = %s AND first = %s"
_OLDEST = "SELECT min(first) FROM penstock.batches WHERE store = %s AND pubend = %s"

_Row = tuple[int, int, int, int]
"""A batch: first, last, messages, bytes."""


class Writing:
    """One commit in progress; made anew if it has to be repeated."""

    def __init__(self, store: int, states: Mapping[str, PubendState], kept_place: int) -> None:
        self._store, self._states = store, states
        self._gathered = Gathered(states)
        self.touched = self._gathered.touched
        """The states of the pubends that the commit concerns, as they will be."""
        self.kept_place = kept_place
        """The highest place of a kept record."""

    def check(self, changes: Sequence[Change]) -> None:
        """Refuse changes that break a rule, before anything is written."""
        self._gathered.check(changes)

    def write(self, connection: Connection, changes: Sequence[Change]) -> None:
        """Write everything that was checked."""
        gathered = self._gathered
        for pubend, messages in gathered.appended.items():
            state = self.touched[pubend]
            if not state.number or pubend in gathered.leased:
                self._put_pubend(connection, pubend, state)
            for ticks in gathered.lost.get(pubend, ()):
                # A batch without a body, which reads report as damaged.
                row = (self._store, state.number, signed(ticks.first), signed(ticks.last), 0, 0, b"")
                connection.execute(_PUT_BATCH, row)
            for batch in cut(messages):
                self._put_batch(connection, state, batch)
        self._put_sequences(connection, [each for each in changes if isinstance(each, Append) and each.sequences])
        for change in changes:
            if isinstance(change, Trim):
                self._trim(connection, change)
        for change in changes:
            self._write_rest(connection, change)
        self._keep(connection, [change for change in changes if isinstance(change, KeepRecord)])

    def _write_rest(self, connection: Connection, change: Change) -> None:
        match change:
            case ForgetPublishers(pubend, below_tick):
                number = self._gathered.state_of(pubend).number
                connection.execute(_FORGET, (self._store, number, signed(below_tick)))
            case SetValue(name, None):
                connection.execute(_UNSET, (self._store, name))
            case SetValue(name, bytes() as value):
                connection.execute(_SET, (self._store, name, seal(name, value)))

    def _put_pubend(self, connection: Connection, pubend: str, state: PubendState) -> None:
        if not state.number:
            numbers = [each.number for known in (self._states, self.touched) for each in known.values()]
            state.number = max(numbers) + 1
        row: dict[str, Any] = {
            "store": self._store,
            "number": state.number,
            "name": pubend,
            "lease": None if state.lease is None else signed(state.lease),
            "last": None if state.last_tick is None else signed(state.last_tick),
            "trimmed": signed(state.trimmed_below),
        }
        connection.execute(_PUT_PUBEND, row)

    def _put_batch(self, connection: Connection, state: PubendState, batch: Sequence[Message]) -> None:
        first, last = batch[0][0], batch[-1][0]
        size_bytes = sum(len(body) for _, body in batch)
        row = (self._store, state.number, signed(first), signed(last), len(batch), size_bytes, pack_batch(batch))
        connection.execute(_PUT_BATCH, row)
        if state.first_tick is None or first < state.first_tick:
            state.first_tick = first
        state.last_tick = last if state.last_tick is None else max(last, state.last_tick)
        state.message_count += len(batch)
        state.size_bytes += size_bytes

    def _put_sequences(self, connection: Connection, changes: Sequence[Append]) -> None:
        highest: dict[tuple[int, bytes], tuple[int, int]] = {}
        for change in changes:
            state = self.touched[change.pubend]
            tick = signed(change.messages[-1][0] if change.messages else state.last_tick or TICK_MIN)
            for publisher, sequence in change.sequences.items():
                former = highest.get((state.number, publisher), (sequence, tick))
                highest[state.number, publisher] = (max(sequence, former[0]), max(tick, former[1]))
        if highest:
            pubends = [pubend for pubend, _ in highest]
            publishers = [publisher for _, publisher in highest]
            sequences = [sequence for sequence, _ in highest.values()]
            ticks = [tick for _, tick in highest.values()]
            connection.execute(_PUT_PUBLISHERS, (self._store, pubends, publishers, sequences, ticks))

    def _keep(self, connection: Connection, changes: Sequence[KeepRecord]) -> None:
        """Write the last change of each record."""
        last: dict[str, bytes | None] = {}
        for change in changes:
            last.pop(change.name, None)
            last[change.name] = change.value
        dropped = [name for name, value in last.items() if value is None]
        if dropped:
            connection.execute(_DROP, (self._store, dropped))
        kept = [(name, value) for name, value in last.items() if value is not None]
        if not kept:
            return
        names = [name for name, _ in kept]
        places = [self.kept_place + place for place in range(1, len(kept) + 1)]
        starts = [self._start(name, value) for name, value in kept]
        stored = [seal(name, value) for name, value in kept]
        self.kept_place = places[-1]
        connection.execute(_KEEP, (self._store, names, places, starts, stored))

    @staticmethod
    def _start(name: str, value: bytes) -> bytes | None:
        start = needed_at_start(name, value)
        return seal(name, start) if len(start) < len(value) else None

    # Trims read before they write, within the transaction.

    def _trim(self, connection: Connection, change: Trim) -> None:
        state = self._gathered.touch(change.pubend)
        if change.below_tick <= state.trimmed_below:
            return
        state.trimmed_below = change.below_tick
        below = signed(change.below_tick)
        found: list[_Row] = connection.execute(
            _BELOW, (self._store, state.number, below, change.batches_max)
        ).fetchall()
        whole = [row for row in found if row[1] < below]
        if whole:
            connection.execute(_DROP_BATCHES, (self._store, state.number, whole[0][0], whole[-1][0]))
            for row in whole:
                _forget(state, row)
        if len(whole) < len(found):
            self._shorten(connection, state, below, found[-1])
        oldest = connection.execute(_OLDEST, (self._store, state.number)).fetchone()
        first = None if oldest is None else oldest[0]
        state.first_tick = None if first is None else unsigned(first)
        if state.first_tick is not None:
            # If later commits have to drop more, the bound is where this one ended.
            state.trimmed_below = min(change.below_tick, state.first_tick)
        self._put_pubend(connection, change.pubend, state)

    def _shorten(self, connection: Connection, state: PubendState, below: int, row: _Row) -> None:
        """Keep the later part of the batch in which a trim ends."""
        first = row[0]
        found = connection.execute(_BODY, (self._store, state.number, first)).fetchone()
        assert found is not None, "the transaction has seen its row"
        try:
            kept = [message for message in unpack_batch(unsigned(first), found[0]) if signed(message[0]) >= below]
        except BatchDamagedError:
            # It must stay, or its ticks would look like silence; under its new first tick it is as damaged as before.
            connection.execute(_BEGIN_LATER, (below, self._store, state.number, first))
            return
        connection.execute(_DROP_BATCHES, (self._store, state.number, first, first))
        _forget(state, row)
        self._put_batch(connection, state, kept)


def _forget(state: PubendState, row: _Row) -> None:
    """Take a batch that was dropped out of the totals."""
    _, _, messages, size_bytes = row
    state.message_count -= messages
    state.size_bytes -= size_bytes
