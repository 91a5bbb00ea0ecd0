"""Runs shipping as part of a node: by interval or token, on request, and not at all without a lake.

A lake that cannot be written is logged once per reason and retried at the next interval; the broker keeps running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from random import Random
from typing import Any, Final, Protocol

from penstock.broker.durable import Recovered
from penstock.broker.effects import Commit, Operate, Record
from penstock.live.errors import ConfigError, StorageError
from penstock.live.node_status import NodeStatus
from penstock.live.overlay import Overlay
from penstock.live.shipping.errors import ShipError
from penstock.live.shipping.files import LakeFiles
from penstock.live.shipping.ledger import Event
from penstock.live.shipping.pending import Pending
from penstock.live.shipping.rows import POSITION_PREFIX
from penstock.live.shipping.settings import INTERVAL, VISIT, Budget
from penstock.live.shipping.shipper import Shipper
from penstock.live.shipping.telemetry import samples_of
from penstock.live.shipping.thread import LakeThread
from penstock.live.shipping.writer import LakeWriter, Opening
from penstock.live.storage import Stimulus, Storage
from penstock.system.logs import log, log_bug

__all__ = ["Shipping", "Ships"]

_NOW: Final = Budget(bytes_max=1 << 40, ms_max=30_000)
"""The budget for a request of an operator; a caller can wait that long."""
_STOP_S_MAX: Final = 5.0
"""Time that a batch in progress gets at shutdown; otherwise the next start completes it."""
_RETIRED_MAX: Final = 1_000
"""Filters that are dropped in one turn."""
_LINKS: Final = ("link-up", "link-down")


class Ships(Protocol):
    """What shipping needs from its node."""

    def status(self) -> NodeStatus:
        """The node's status."""

    def retire(self, names: Sequence[str]) -> None:
        """Have the broker drop these filters, which are in the lake."""

    def stimulate(self, stimulus: Stimulus) -> None:
        """Pass a stimulus to the broker."""


class Shipping:
    """All shipping of one node; does nothing if its overlay has no lake."""

    def __init__(self, overlay: Overlay, name: str, node: Ships, *, clock_ms: Callable[[], int], rng: Random) -> None:
        self._settings = overlay.ship
        self._place = overlay.place_of(name)
        self._name = name
        self._node = node
        self._clock_ms = clock_ms
        self._rng = rng
        self._pending = Pending()
        self._thread: LakeThread | None = None
        self._writer: LakeWriter | None = None
        self._shipper: Shipper | None = None
        self._task: asyncio.Task[None] | None = None
        self._operation: asyncio.Task[None] | None = None
        self._problem = ""
        self._shipped_ms = 0

    async def start(self, recovered: Recovered | None, incarnation: int, *, storage: Storage) -> None:
        """Find what has to be shipped, and begin; raises ``StorageError`` if the ledger cannot be used."""
        settings, data = self._settings, self._place.data
        if settings is None:
            return
        assert data is not None, "a broker that ships has a data folder"
        found = recovered or Recovered()
        positions = {name: value for name, value in found.values.items() if name.startswith(POSITION_PREFIX)}
        self._thread = thread = LakeThread(f"lake of {self._name}")
        self._writer = writer = LakeWriter(
            LakeFiles(settings.lake, self._name), folder=data, pubends=self._place.pubends
        )
        now_ms = self._clock_ms()
        try:
            opening: Opening = await thread.call(
                lambda: writer.open(
                    incarnation=incarnation, kept=list(found.kept), positions=list(positions), now_ms=now_ms
                )
            )
        except ShipError as error:
            thread.end()
            raise StorageError(f"broker {self._name} cannot ship: {error}") from error
        if opening.is_anew:
            self._note("ledger-damaged", result="all that is kept is shipped again")
        self._pending.begin(opening.unsettled, {**positions, **dict.fromkeys(opening.forgotten)})
        storage.watch(self)
        self._shipper = Shipper(writer, self._pending, thread, read=storage.read_kept, clock_ms=self._clock_ms)
        if settings.when == INTERVAL:
            self._task = asyncio.create_task(self._run(settings.interval_ms / 1_000), name=f"ship {self._name}")

    async def ship(self, budget: Budget = _NOW) -> dict[str, Any]:
        """Ship pending records now; returns figures. Raises ``ShipError``, or ``ConfigError`` without a lake."""
        if self._shipper is None:
            raise ConfigError(f"broker {self._name} ships nothing: its overlay file names no lake ([ship] lake)")
        now_ms = self._clock_ms()
        shipped = await self._shipper.ship(now_ms, budget, samples=samples_of(self._node.status(), now_ms=now_ms))
        self._shipped_ms, self._problem = now_ms, ""
        await self._retire(now_ms)
        return asdict(shipped)

    async def stop(self) -> None:
        """Stop, after finishing what is in progress if that does not take long."""
        for task in (self._task, self._operation):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self._thread is not None and self._writer is not None and self._shipper is not None:
            self._remember(Event(self._clock_ms(), "stop"))
            last = self._thread.call(self._writer.close)
            self._thread.end()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S_MAX):
                    await last
            self._shipper = None

    # Called by the node.

    def on_submitted(self, commit: Commit) -> None:
        """A commit is on its way to the store."""
        self._pending.on_submitted(commit)

    def on_committed(self, number: int) -> None:
        """All commits up to this number are durable."""
        self._pending.on_committed(number)

    def on_record(self, record: Record) -> None:
        """Remember links that go up or down, for the lake; ignore other records."""
        if self._shipper is not None and record.event in _LINKS:
            neighbour = str(dict(record.fields).get("neighbour", ""))
            self._remember(Event(self._clock_ms(), record.event, neighbour))

    def operate(self, effect: Operate) -> None:
        """Handle a visit of the token: ship now, if shipping waits for it."""
        self._operation = asyncio.create_task(self._operate(effect), name=f"operate {self._name}")

    def status(self) -> dict[str, Any] | None:
        """Figures for the operator; None without a lake."""
        if self._settings is None:
            return None
        shipped = asdict(self._shipper.total) if self._shipper is not None else {}
        shipped.pop("is_all", None)
        return {
            "lake": str(self._settings.lake),
            "waiting": len(self._pending),
            "shipped_ms": self._shipped_ms,
            "problem": self._problem,
            **shipped,
        }

    # Inside.

    async def _run(self, interval_s: float) -> None:
        assert self._settings is not None
        # Brokers that start together need not ship together.
        await asyncio.sleep(interval_s * self._rng.random())
        while True:
            await self._try_to_ship(self._settings.budget)
            await asyncio.sleep(interval_s)

    async def _operate(self, effect: Operate) -> None:
        begun_ms, settings = self._clock_ms(), self._settings
        if self._shipper is not None and settings is not None and settings.when == VISIT:
            left_ms = max(min(settings.turn_ms, effect.until_ms - begun_ms), 1)
            await self._try_to_ship(Budget(settings.bytes_max, left_ms))
            self._note("operated", fence=effect.fence, begun_ms=begun_ms, ended_ms=self._clock_ms())
        self._node.stimulate(lambda broker, now_ms: broker.operated(effect.fence, now_ms=now_ms))

    async def _try_to_ship(self, budget: Budget) -> None:
        try:
            await self.ship(budget)
        except ShipError as error:
            self._complain(str(error))
        except Exception as error:  # noqa: BLE001 - the next turn may go well
            log_bug("bug", (("broker", self._name), ("at", "shipping")), error)

    async def _retire(self, now_ms: int) -> None:
        if self._settings is None or not self._settings.retain_ms or self._thread is None:
            return
        before_ms, writer = now_ms - self._settings.retain_ms, self._writer
        assert writer is not None
        names = await self._thread.call(lambda: writer.settled(before_ms, _RETIRED_MAX))
        if names:
            self._node.retire(names)

    def _remember(self, event: Event) -> None:
        assert self._thread is not None
        writer = self._writer
        assert writer is not None
        self._thread.call(lambda: writer.remember(event)).add_done_callback(self._on_remembered)

    def _on_remembered(self, future: asyncio.Future[None]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self._complain(str(error))

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._note("ship-failed", reason=problem)

    def _note(self, event: str, **fields: str | int) -> None:
        log(event, (("broker", self._name), *fields.items()))
