"""A candidate's questions to the shared database, with the rules of ``live.postgres.holdings``, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from penstock.broker.candidate import Answer, Held, LeaseSettings, Lost, Release, Renew, Renewed, Take, Taken
from penstock.sim.database import Connection, Database, Doubtful, Row, TimedOut, Transaction
from penstock.sim.process import Waiting
from penstock.sim.transactions import ChangeRow, Evict, Look, Looked, Passed, Tell

__all__ = ["Holdings", "store_application"]

_WANTED_LEASES: Final = 3
"""For how many leases the wish lasts that a home moves to a candidate.

Once the home is given up, it is kept for that one for a single lease: then it is anybody's, as it may have died.
"""


def store_application(home: str) -> str:
    """What the connections of all stores of a home are called."""
    return f"store of {home}"


class Holdings:
    """The row of one home, as one process of a candidate sees it."""

    def __init__(
        self, database: Database, *, home: str, holder: str, life: str, place: int, lease: LeaseSettings, answer_ms: int
    ) -> None:
        self.connection: Connection | None = None
        self._database, self._home, self._holder, self._life = database, home, holder, life
        self._place, self._lease, self._answer_ms = place, lease, answer_ms
        self._seen: tuple[int, int] | None = None
        """The version of the row that was found last, and when it was found first."""

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def connected(self) -> Waiting[Connection | None]:
        """The connection, made if there is none; None if that is not possible now."""
        if self.connection is None or not self.connection.is_open:
            self.connection = yield from self._database.connecting(
                self._holder, f"candidate for {self._home}", listens=self._home, answer_ms=self._answer_ms
            )
        return self.connection

    def answering(self, question: Take | Renew | Release) -> Waiting[Answer | None]:
        """Put a question; None if it is not answered."""
        answer: Answer | None
        match question:
            case Take():
                answer = yield from self._take()
            case Renew(epoch):
                answer = yield from self._renew(epoch)
            case Release(epoch, to):
                answer = yield from self._release(epoch, to)
        return answer

    def wanting(self, to: str) -> Waiting[bool]:
        """Ask its holder to give the home to a candidate; returns whether that is known to have been said."""
        serial, until_ms = self._database.next_serial(), _WANTED_LEASES * self._lease.lease_ms
        changed = partial(_wanted, to=to, for_ms=until_ms, version=serial)
        row = yield from self._ask(ChangeRow(self._home, lambda _: True, changed))
        if not isinstance(row, Row):
            return False
        yield from self._ask(Tell(self._home))
        return True

    def _take(self) -> Waiting[Taken | Held | None]:
        looked = yield from self._ask(Look(self._home))
        if not isinstance(looked, Looked):
            return None
        row = looked.row
        found = self._held(looked)
        is_reserved = row.wanted_until_ms > looked.now_ms
        is_mine = bool(row.holder) and row.life == self._life
        is_kept_for_me = is_reserved and row.wanted == self._holder
        # Nor longer than a lease by our own clock.
        is_kept = is_reserved and not is_kept_for_me and self._seen_for_ms(row) < self._lease.lease_ms
        is_early = self._remaining_ms(looked) + self._place * self._lease.stagger_ms > 0 and not is_kept_for_me
        if is_kept or (not is_mine and (found.holder or is_early)):
            return found
        if row.holder:
            # A holder that was stopped or cut off in the middle of a commit would keep the row locked.
            yield from self._ask(Evict(store_application(self._home)))
        return (yield from self._take_now(row))

    def _take_now(self, row: Row) -> Waiting[Taken | Held | None]:
        if self.connection is None:
            return None
        changed = partial(
            _taken,
            holder=self._holder,
            life=self._life,
            lease_ms=self._lease.lease_ms,
            timeline=self.connection.timeline,
            version=self._database.next_serial(),
        )
        is_unchanged = partial(_has_version, version=row.version)
        new = yield from self._ask(ChangeRow(self._home, is_unchanged, changed, raises_epoch=True))
        if isinstance(new, Row):
            return Taken(new.epoch)
        return (yield from self._look()) if isinstance(new, Passed) else None

    def _renew(self, epoch: int) -> Waiting[Renewed | Lost | None]:
        connection = yield from self.connected()
        if connection is None:
            return None
        changed = partial(
            _renewed,
            lease_ms=self._lease.lease_ms,
            timeline=connection.timeline,
            version=self._database.next_serial(),
        )
        row = yield from self._ask(ChangeRow(self._home, self._is_held_in(epoch), changed))
        if isinstance(row, Passed):
            return Lost()
        if not isinstance(row, Row):
            return None
        is_reserved = row.wanted_until_ms > row.lease_until_ms - self._lease.lease_ms
        return Renewed(row.wanted if is_reserved else "")

    def _release(self, epoch: int, to: str) -> Waiting[Held | None]:
        for_ms = self._lease.lease_ms if to else 0
        changed = partial(_released, to=to, for_ms=for_ms, version=self._database.next_serial())
        row = yield from self._ask(ChangeRow(self._home, self._is_held_in(epoch), changed))
        if not isinstance(row, Row | Passed):
            return None
        yield from self._ask(Tell(self._home))
        return (yield from self._look())

    def _look(self) -> Waiting[Held | None]:
        looked = yield from self._ask(Look(self._home))
        return self._held(looked) if isinstance(looked, Looked) else None

    def _is_held_in(self, epoch: int) -> Callable[[Row], bool]:
        # A database that has lost a take-over gives the same epoch away again.
        return lambda row: (row.epoch, row.life) == (epoch, self._life)

    def _held(self, looked: Looked) -> Held:
        row = looked.row
        remaining_ms = self._remaining_ms(looked) if row.holder else 0
        wanted = row.wanted if row.wanted_until_ms > looked.now_ms else ""
        return Held(row.holder if remaining_ms > 0 else "", row.epoch, max(0, remaining_ms), wanted)

    def _remaining_ms(self, looked: Looked) -> int:
        """How long the holder may still believe in its lease; negative if it has been over for some time."""
        row = looked.row
        # Whatever the clock of the database says: it may have been set back, or be another one since a promotion.
        at_most_ms = row.lease_ms - self._seen_for_ms(row)
        if row.holder and self.connection is not None and row.timeline != self.connection.timeline:
            return at_most_ms
        return min(row.lease_until_ms - looked.now_ms, at_most_ms)

    def _seen_for_ms(self, row: Row) -> int:
        """For how long the row has not changed."""
        now_ms = self._database.clock.now_ms
        if self._seen is None or self._seen[0] != row.version:
            self._seen = row.version, now_ms
        return now_ms - self._seen[1]

    def _ask(self, transaction: Transaction) -> Waiting[Any]:
        """The answer to one question; None if it is not known to be durable, or not known at all."""
        connection = yield from self.connected()
        if connection is None:
            return None
        answer = yield connection.ask(transaction, answer_ms=self._answer_ms)
        if answer is None or isinstance(answer, TimedOut):
            self.close()
            return None
        return None if isinstance(answer, Doubtful) else answer


def _has_version(row: Row, *, version: int) -> bool:
    return row.version == version


def _taken(row: Row, now_ms: int, *, holder: str, life: str, lease_ms: int, timeline: int, version: int) -> Row:
    return Row(row.epoch + 1, holder, life, timeline, lease_ms, now_ms + lease_ms, version=version)


def _renewed(row: Row, now_ms: int, *, lease_ms: int, timeline: int, version: int) -> Row:
    lease_until_ms = now_ms + lease_ms
    return replace(row, lease_ms=lease_ms, lease_until_ms=lease_until_ms, timeline=timeline, version=version)


def _released(row: Row, now_ms: int, *, to: str, for_ms: int, version: int) -> Row:
    return replace(
        row, holder="", lease_until_ms=now_ms, wanted=to, wanted_until_ms=now_ms + for_ms if to else 0, version=version
    )


def _wanted(row: Row, now_ms: int, *, to: str, for_ms: int, version: int) -> Row:
    return replace(row, wanted=to, wanted_until_ms=now_ms + for_ms, version=version)
