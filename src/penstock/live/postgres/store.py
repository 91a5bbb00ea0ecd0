"""The durable data of a broker in PostgreSQL; see ``live.stores`` for the law.

That rows are whole, and none is missing, is the database's business: only what is packed in them has checksums of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.durable import Change, Recovered, RecoveredPubend, needed_at_start, parts_of
from penstock.live.postgres.connecting import Connection
from penstock.live.postgres.fenced import FencedConnection
from penstock.live.postgres.reading import BatchesReader
from penstock.live.postgres.writing import Writing
from penstock.live.store.database import Recovery
from penstock.live.store.errors import ChangeRefusedError, StoreFailedError, StoreFullError
from penstock.live.store.kept import KeptFound, KeptPart
from penstock.live.store.pubend_state import PubendState, unsigned, unsigned_or_none
from penstock.live.store.reading import LogPart
from penstock.live.store.sealed import unseal
from penstock.model.tick import Tick

__all__ = ["DatabaseStore"]

_PUBENDS = "SELECT name, number, lease, last, trimmed FROM penstock.pubends WHERE store = %(store)s"
_TOTALS = (
    "SELECT pubend, min(first), max(last), sum(messages)::bigint, sum(bytes)::bigint FROM penstock.batches "
    "WHERE store = %(store)s GROUP BY pubend"
)
_SIZES = "SELECT first, last, bytes FROM penstock.batches WHERE store = %(store)s AND pubend = %(pubend)s"
_PUBLISHERS = "SELECT publisher, sequence FROM penstock.publishers WHERE store = %(store)s AND pubend = %(pubend)s"
_NAMED = "SELECT name, stored FROM penstock.named WHERE store = %(store)s"
_KEPT = "SELECT place, name, coalesce(start, stored) FROM penstock.kept WHERE store = %(store)s"
_KEPT_SIZES = "SELECT name, length(stored) FROM penstock.kept WHERE store = %(store)s AND name = ANY(%(names)s)"
_KEPT_VALUES = "SELECT name, stored FROM penstock.kept WHERE store = %(store)s AND name = ANY(%(names)s)"
_KEPT_PLACE = "SELECT coalesce(max(place), 0) FROM penstock.kept WHERE store = %(store)s"


class DatabaseStore:
    """The logs of all pubends of a broker, and what is kept beside them."""

    def __init__(self, connection: FencedConnection) -> None:
        """The connection has been opened."""
        self._connection = connection
        self._states: dict[str, PubendState] = {}
        self._failure = ""
        self._kept_place = int(connection.rows(_KEPT_PLACE)[0][0])
        self.kept_found = KeptFound()
        """The kept records that the last ``recovered`` found."""
        # The database recovers by itself; what it found is in its own log.
        self.recovery = Recovery(created=connection.created, clean=True, replayed_bytes=0, dropped_bytes=0)
        self._load_states()

    def close(self) -> None:
        """Close the connection; committed changes stay, and others leave no trace."""
        self._connection.close()

    @property
    def replicas(self) -> int:
        """How many synchronous standbys each commit waits for."""
        return self._connection.replicas

    # Writing.

    def commit(self, changes: Sequence[Change]) -> None:
        """Make the changes durable, all or none: appends, then trims, then the rest in their order."""
        if self._failure:
            raise StoreFailedError(self._failure)
        written: list[Writing] = []

        def write(connection: Connection) -> None:
            writing = Writing(self._connection.number, self._states, self._kept_place)
            writing.check(changes)
            writing.write(connection, changes)
            written.append(writing)

        # Refused before anything is begun: an error within a transaction would put the connection in doubt.
        Writing(self._connection.number, self._states, self._kept_place).check(changes)
        try:
            self._connection.commit(write)
        except (StoreFullError, ChangeRefusedError):
            raise
        except Exception as error:
            self._failure = f"the store in the database failed: {error}"
            raise
        self._states.update(written[-1].touched)
        self._kept_place = written[-1].kept_place

    # Reading.

    def recovered(self) -> Recovered:
        """All that a broker must know of its earlier run, without the messages; damaged values are empty."""
        pubends = {name: self._recovered_pubend(state) for name, state in sorted(self._states.items())}
        values = {name: value or b"" for name, value in self._values()}
        self.kept_found = self._kept()
        return Recovered(pubends, values, self.kept_found.records)

    def damaged_values(self) -> list[str]:
        """The names of values that cannot be read."""
        return [name for name, value in self._values() if value is None]

    def read_part(self, pubend: str, first_tick: Tick, last_tick: Tick, *, bytes_max: int) -> LogPart:
        """Messages with these ticks in order, up to ``bytes_max`` of bodies but at least one, and how far they go."""
        reader = BatchesReader(self._connection, pubend, self._state(pubend).number)
        return reader.part(first_tick, last_tick, bytes_max=bytes_max)

    def read_kept(self, names: Sequence[str], *, bytes_max: int) -> KeptPart:
        """Read kept records by name, up to ``bytes_max`` but at least one; None for a missing or damaged one."""
        sizes = dict(self._connection.rows(_KEPT_SIZES, names=list(names)))
        asked: list[str] = []
        room = bytes_max
        for name in dict.fromkeys(names):
            size = sizes.get(name, 0)
            if asked and size > room:
                break
            asked.append(name)
            room -= size
        stored = dict(self._connection.rows(_KEPT_VALUES, names=asked))
        part = KeptPart({}, [])
        for name in asked:
            part.values[name] = unseal(name, stored[name]) if name in stored else None
            if name in stored and part.values[name] is None:
                part.damaged.append(name)
        return part

    def trimmed_below(self, pubend: str) -> Tick:
        """The tick below which messages were dropped."""
        return self._state(pubend).trimmed_below

    def file_bytes(self) -> int:
        """Bytes of the messages in the logs: the tables of the database may be those of others, too."""
        return sum(state.size_bytes for state in self._states.values())

    # Inside.

    def _state(self, pubend: str) -> PubendState:
        return self._states.get(pubend) or PubendState()

    def _load_states(self) -> None:
        by_number: dict[int, PubendState] = {}
        for name, number, lease, last, trimmed in self._connection.rows(_PUBENDS):
            state = PubendState(number, 0, unsigned_or_none(lease), None, unsigned_or_none(last), unsigned(trimmed))
            self._states[name] = by_number[number] = state
        for number, first, last, messages, size_bytes in self._connection.rows(_TOTALS):
            state = by_number[number]
            state.first_tick = unsigned(first)
            state.last_tick = max(unsigned(last), state.last_tick or unsigned(last))
            state.message_count = messages
            state.size_bytes = size_bytes

    def _recovered_pubend(self, state: PubendState) -> RecoveredPubend:
        sizes = sorted(self._connection.rows(_SIZES, pubend=state.number))
        sequences = self._connection.rows(_PUBLISHERS, pubend=state.number)
        return RecoveredPubend(
            lease=state.lease,
            last_tick=state.last_tick,
            first_tick=state.first_tick,
            trimmed_below=state.trimmed_below,
            parts=parts_of(((unsigned(last), size_bytes) for _, last, size_bytes in sizes), state.size_bytes),
            sequences=dict(sequences),
        )

    def _values(self) -> list[tuple[str, bytes | None]]:
        """All named values with their names; None for damaged ones."""
        return [(name, unseal(name, stored)) for name, stored in sorted(self._connection.rows(_NAMED))]

    def _kept(self) -> KeptFound:
        found = KeptFound()
        for _, name, stored in sorted(self._connection.rows(_KEPT)):
            start = unseal(name, stored)
            if start is None:
                found.damaged.append(name)
            found.records[name] = b"" if start is None else needed_at_start(name, start)
        return found
