"""Ships what has changed at a broker, batch after batch, within a budget; never blocks the event loop.

An interval, the token or an operator decides when to call ``Shipper.ship``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final, TypeAlias

from penstock.live.shipping.pending import Pending
from penstock.live.shipping.rows import MARK
from penstock.live.shipping.settings import Budget
from penstock.live.shipping.thread import LakeThread
from penstock.live.shipping.writer import LakeWriter, Load, Sample, Shipped

__all__ = ["ReadRecords", "Shipper"]

ReadRecords: TypeAlias = Callable[[Sequence[str]], Awaitable[dict[str, bytes | None]]]
"""Reads kept records from the store by name: as many of the first as fit an answer, but at least one."""

_NAMES_MAX: Final = 1_024
"""Records that one batch may have; their bytes are bounded by what the store reads at a time."""


class Shipper:
    """Ships for one broker, one call at a time."""

    def __init__(
        self,
        writer: LakeWriter,
        pending: Pending,
        thread: LakeThread,
        *,
        read: ReadRecords,
        clock_ms: Callable[[], int],
    ) -> None:
        self._writer = writer
        self._pending = pending
        self._thread = thread
        self._read, self._clock_ms = read, clock_ms
        self._turn = asyncio.Lock()
        self.total = Shipped()
        """Figures since the start."""
        self.bytes_read = 0

    async def ship(self, now_ms: int, budget: Budget | None = None, *, samples: Sequence[Sample] = ()) -> Shipped:
        """Ship pending records within the budget; raises ``ShipError``, and what was not shipped stays pending."""
        async with self._turn:
            return await self._ship(now_ms, budget or Budget(), samples)

    async def _ship(self, now_ms: int, budget: Budget, samples: Sequence[Sample]) -> Shipped:
        begun_ms = self._clock_ms()
        room = budget.bytes_max
        shipped = Shipped()
        # The mark is read first and shipped last: everything before it was durable when it was read.
        mark = await self._read([MARK])
        names = self._pending.names()
        load = Load(positions=self._pending.positions(), samples=samples)
        while True:
            asked = list(islice(names, _NAMES_MAX))
            load.records = await self._read(asked) if asked else {}
            stamps = {name: names.pop(name) for name in load.records}
            size_bytes = sum(len(value or b"") for value in load.records.values())
            if not names and mark[MARK] is not None:
                load.records |= mark
            done = await self._send(load, now_ms)
            self._pending.on_shipped(stamps, load.positions)
            shipped.add(done)
            self.total.add(done)
            self.bytes_read += size_bytes
            room -= size_bytes
            if not names or room <= 0 or self._clock_ms() - begun_ms >= budget.ms_max:
                break
            load = Load()
        shipped.is_all = not names
        return shipped

    async def _send(self, load: Load, now_ms: int) -> Shipped:
        return await self._thread.call(lambda: self._writer.ship(load, now_ms=now_ms))
