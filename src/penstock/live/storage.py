"""The store as a node sees it: carries out a broker's effects, and returns the results as stimuli.

Without a data folder it keeps nothing, and must not be asked to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from penstock.broker.durable import Recovered
from penstock.broker.effects import Commit, Effect, ReadKept, ReadLog
from penstock.broker.ports import BrokerPort
from penstock.live.backup import Backup, check_folder
from penstock.live.errors import ConfigError, NodeFailedError, StorageError
from penstock.live.keeper import Keeper
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.live.store import StoreRefusedError
from penstock.live.store.errors import StoreFencedError, StoreLostError
from penstock.live.store.place import FolderPlace
from penstock.live.store_worker import KeptRead, LogRead
from penstock.live.stores import MOVED, Place
from penstock.live.tenure import Tenure
from penstock.live.turns import Pace, Turns
from penstock.model.errors import PenstockError
from penstock.system.logs import log

__all__ = ["Stimulus", "Storage", "StorageWatcher", "check_served"]

Stimulus: TypeAlias = Callable[[BrokerPort, int], Sequence[Effect]]
"""Something to tell the broker, at a time in milliseconds."""


class StorageWatcher(Protocol):
    """Learns what becomes durable, besides the broker."""

    def on_submitted(self, commit: Commit) -> None:
        """A commit is on its way to the store."""

    def on_committed(self, number: int) -> None:
        """All commits up to this number are durable."""


class Storage:
    """The durable storage of one broker, if it has a data folder."""

    def __init__(
        self,
        overlay: Overlay,
        name: str,
        *,
        tenure: Tenure | None = None,
        turns: Turns,
        stimulate: Callable[[Stimulus], None],
        fail: Callable[[NodeFailedError], None],
    ) -> None:
        self._place, self._name = overlay.place_of(name), name
        self._turns = turns
        self._stimulate = stimulate
        self._fail = fail
        self._durable = self._told = 0
        """The last durable commit, and the last one that the broker knows to be durable."""
        self._pace = Pace()
        self._keeper: Keeper | None = None
        self._is_opening = False
        self.opening_reason = ""
        """Why the store takes long to open; empty if it does not, or is open."""
        self._watcher: StorageWatcher | None = None
        self._asked: dict[int, asyncio.Future[dict[str, bytes | None]]] = {}
        place = self._store_place(overlay.name, tenure)
        if place is not None:
            self._keeper = Keeper(place, self)

    def _store_place(self, overlay: str, tenure: Tenure | None) -> Place | None:
        """Where the broker keeps its data; None if it keeps nothing."""
        database = self._place.database
        if database is not None and find_spec("psycopg") is None:
            # A node refuses to start without it, and says what to install.
            return None
        if database is not None:
            # Only where it is used: the driver is an extra.
            from penstock.live.postgres.place import DatabasePlace

            return DatabasePlace(
                database.url,
                overlay,
                self._name,
                tenure=tenure,
                replicas_min=database.replicas_min,
                answer_ms=database.answer_ms,
            )
        if self._place.data is None:
            return None
        return FolderPlace(self._place.data, overlay, self._name, self._place.data_bytes_max or None)

    async def open(self, *, started_ms: int) -> tuple[Recovered | None, int]:
        """Open the store: what an earlier run left, and a new incarnation; raises ``StorageError`` if refused."""
        if self._keeper is None:
            return None, started_ms
        self._is_opening = True
        try:
            opened = await self._keeper.open(started_ms=started_ms)
        except StoreRefusedError as error:
            at = f"{self._place.where}: " if self._place.where else ""
            raise StorageError(f"{at}broker {self._name} cannot use its data: {error}") from error
        self._is_opening = False
        self.opening_reason = ""
        self._note("store-opened", place=self._keeper.shown, **asdict(opened.recovery))
        if opened.recovery.repaired:
            self._note("store-repaired", reason=opened.recovery.repaired)
        if opened.recovery.tightened:
            self._note("store-tightened", place=self._keeper.shown, reason=opened.recovery.tightened)
        return opened.recovered, opened.incarnation

    def carry_out(self, effect: Commit | ReadLog | ReadKept) -> None:
        """Commit or read, and stimulate the broker when it is done."""
        assert self._keeper is not None, f"broker {self._name} has no data folder, and wants {effect}"
        if isinstance(effect, Commit):
            if self._watcher is not None:
                self._watcher.on_submitted(effect)
            self._keeper.submit(effect)
        else:
            self._keeper.read(effect)

    def watch(self, watcher: StorageWatcher) -> None:
        """Tell the watcher of all commits from now on."""
        self._watcher = watcher

    async def read_kept(self, names: Sequence[str]) -> dict[str, bytes | None]:
        """Read kept records for a caller other than the broker: as many as fit one answer, but at least one."""
        assert self._keeper is not None, f"broker {self._name} has no data folder"
        # The broker's own reads have numbers above zero.
        number = min(self._asked, default=0) - 1
        answer: asyncio.Future[dict[str, bytes | None]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._keeper.read(ReadKept(number, tuple(names)))
        try:
            return await answer
        finally:
            self._asked.pop(number, None)

    def back_up(self, folder: Path) -> Backup:
        """Begin to copy the store into a folder; raises ``ConfigError`` if that cannot be."""
        if self._keeper is None or self._place.database is not None:
            raise ConfigError(f"broker {self._name} keeps no data in a folder: back up its database")
        check_folder(folder)
        backup = Backup(folder)
        self._keeper.back_up(backup)
        return backup

    async def close(self) -> None:
        """Commit what is queued, within a time limit, and close the store."""
        if self._keeper is not None:
            await self._keeper.close()
        self._refuse_answers()

    def abandon(self) -> None:
        """Leave the store at once, whatever is under way: it may be somebody else's by now."""
        if self._keeper is not None:
            self._keeper.abandon()
        self._refuse_answers()

    def _refuse_answers(self) -> None:
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(StorageError(f"broker {self._name} has stopped"))

    def status(self) -> dict[str, Any] | None:
        """The store's figures; None if there is no store."""
        return self._keeper.status() if self._keeper is not None else None

    # From the keeper.

    def on_committed(self, number: int) -> None:
        """All commits up to this number are durable."""
        if self._watcher is not None:
            self._watcher.on_committed(number)
        self._durable = number
        self.work()

    @property
    def number(self) -> int:
        """Its number as a worker, below those of all connections."""
        return 0

    @property
    def uses_much(self) -> bool:
        """False: everybody waits for this work."""
        return False

    def flush(self) -> None:
        """Do nothing: there is nothing to send."""

    def work(self, *, to_the_end: bool = False) -> None:
        """Tell the broker which commits are durable, some at a time, since it then matches their messages."""
        while self._told < self._durable:
            number = self._durable if to_the_end else min(self._durable, self._told + self._pace.weight_max)
            took_s = self._turns.timed(partial(self._tell_committed, number))
            self._pace.note(number - self._told, took_s, now_s=self._turns.now_s)
            self._told = number
            if self._told < self._durable and self._turns.is_spent:
                self._turns.put_off(self)
                return

    def _tell_committed(self, number: int) -> None:
        self._stimulate(lambda broker, now_ms: broker.committed(number, now_ms=now_ms))

    def on_values_kept(self, number: int) -> None:
        """Named values are durable, though messages before them wait for space."""
        self.work(to_the_end=True)
        self._stimulate(lambda broker, now_ms: broker.committed(number, now_ms=now_ms, values_only=True))

    def on_full(self, reason: str) -> None:
        """Publishers have to wait for space."""
        self._note("store-full", reason=reason)
        if self._is_opening:
            # There is no broker yet that could hold anybody back: a database waits for its standby.
            self.opening_reason = reason
            return
        self.work(to_the_end=True)
        self._stimulate(lambda broker, now_ms: broker.log_full(reason, now_ms=now_ms))

    def on_read(self, found: LogRead) -> None:
        """A read of a log has finished."""
        self.work(to_the_end=True)
        self._stimulate(
            lambda broker, now_ms: broker.log_read(
                found.number, found.messages, found.last, now_ms=now_ms, damaged=found.damaged
            )
        )

    def on_kept_read(self, found: KeptRead) -> None:
        """A read of kept records has finished."""
        if found.number < 0:
            if (answer := self._asked.get(found.number)) is not None and not answer.done():
                answer.set_result(found.values)
            return
        self.work(to_the_end=True)
        self._stimulate(lambda broker, now_ms: broker.kept_read(found.number, found.values, now_ms=now_ms))

    def on_failed(self, error: PenstockError) -> None:
        """The store has failed: only a restart can tell what is durable."""
        self._note("store-error", reason=str(error))
        # What a database has lost, or somebody else has by now, is not kept here.
        advice = "" if isinstance(error, StoreLostError | StoreFencedError) else "; what it acknowledged is kept"
        failure = NodeFailedError(f"broker {self._name} had to stop: {error}; start it again{advice}")
        failure.__cause__ = error
        self._fail(failure)

    def _note(self, event: str, **fields: str | int) -> None:
        log(event, (("broker", self._name), *fields.items()))


def check_served(place: BrokerPlace, recovered: Recovered | None, moved: Collection[str] = ()) -> dict[str, int]:
    """The removed pubends that still have messages in their logs, with sizes in bytes.

    A removed pubend can be put back, and its log continues. Raises for one made best effort, which has no log to serve;
    for one that was given candidates (``moved``) without its log; and for one that was copied elsewhere and is served
    here all the same: to publishers and subscribers nothing would look unusual, and acknowledged messages would be lost
    silently.
    """
    removed: dict[str, int] = {}
    at = f"{place.where}: " if place.where else ""
    values = recovered.values if recovered is not None else {}
    for name, found in (recovered.pubends if recovered is not None else {}).items():
        copied = values.get(f"{MOVED}/{name}")
        if copied is not None and name in place.pubends:
            where, owner = _kept_at(place)
            raise StorageError(
                f"{at}pubend {name} was copied from {where} to {copied.decode(errors='replace')}, and would be "
                f"served twice: take it away from broker {place.name}, and have it served from there. "
                "If the copy was never used, make a store that has it: "
                f"'penstock store copy {where} NEW{owner} --again'"
            )
        if copied is not None:
            continue
        if name in moved:
            where, owner = _kept_at(place)
            raise StorageError(
                f"{at}pubend {name} has candidates now, and broker {place.name} still has its log of "
                f"{found.size_bytes:,} bytes and its subscriptions, without which it would begin anew: run 'penstock "
                f"store copy {where} URL{owner} --pubend {name}' with the url of its database, or give the one with "
                "candidates a name of its own"
            )
        if not found.size_bytes or (name in place.pubends and name not in place.best_effort):
            continue
        if name in place.best_effort:
            raise StorageError(
                f"{at}pubend {name} of broker {place.name} is best effort now, and its log still holds "
                f"{found.size_bytes:,} bytes of messages that were guaranteed: leave it guaranteed until they are "
                "delivered and trimmed, or give the best-effort pubend a name of its own"
            )
        removed[name] = found.size_bytes
    return removed


def _kept_at(place: BrokerPlace) -> tuple[str, str]:
    """Where a broker keeps its messages, and the options that say whose they are there, for a command to copy them."""
    if place.database is None:
        return str(place.data), ""
    # Only where it is used: the driver is an extra.
    from penstock.live.postgres.connecting import shown_url

    return shown_url(place.database.url), f" --overlay OVERLAY --broker {place.name}"
