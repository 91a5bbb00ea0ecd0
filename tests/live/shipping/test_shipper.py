"""Batch after batch within a budget, with the mark behind all that it speaks of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from live.shipping.lakes import T0, Fuse, bloom_value, breaking_writer, rows_of
from live.support import run
from penstock.broker.durable import KeepRecord, SetValue
from penstock.broker.effects import Commit
from penstock.live.shipping.errors import ShipError
from penstock.live.shipping.pending import Pending
from penstock.live.shipping.rows import MARK
from penstock.live.shipping.settings import Budget
from penstock.live.shipping.shipper import Shipper
from penstock.live.shipping.thread import LakeThread
from penstock.live.shipping.writer import Shipped
from penstock.tracking.records import MarkRecord, encode_record

NOW = T0 + 60_000


class Store:
    """A store that gives a few records at a time, and a shipper for it."""

    def __init__(self, tmp_path: Path, *, at_once: int = 2) -> None:
        self.lake = tmp_path / "lake"
        self._kept: dict[str, bytes] = {}
        self._at_once, self._commits = at_once, 0
        self.ms_per_read = self.reads = 0
        self._now_ms = 0
        self.pending = Pending()
        self.thread = LakeThread("lake of b1")
        writer = breaking_writer(tmp_path, Fuse())
        self.opened = self.thread.call(lambda: writer.open(incarnation=1, kept=(), positions=(), now_ms=NOW))
        self.shipper = Shipper(writer, self.pending, self.thread, read=self._read, clock_ms=lambda: self._now_ms)

    def keep(self, *records: tuple[str, bytes | None]) -> None:
        self._kept |= {name: value for name, value in records if value is not None}
        self._commit(*(KeepRecord(*each) for each in records))

    def mark(self, stored_ms: int) -> None:
        self.keep((MARK, encode_record(MarkRecord(stored_ms, stored_ms))))

    def _commit(self, *changes: KeepRecord | SetValue) -> None:
        self._commits += 1
        self.pending.on_submitted(Commit(self._commits, changes))
        self.pending.on_committed(self._commits)

    async def _read(self, names: Sequence[str]) -> dict[str, bytes | None]:
        self.reads += 1
        await asyncio.sleep(0)
        self._now_ms += self.ms_per_read
        return {name: self._kept.get(name) for name in names[: self._at_once]}

    def filters(self) -> list[int]:
        return [row["filter_id"] for row in rows_of(self.lake, "histories")]

    def marks(self) -> list[int]:
        rows = [row for row in rows_of(self.lake, "gaps") if row["reason"] == "open"]
        return [int.from_bytes(row["spans"][:8]) for row in rows]


def test_all_that_waits_is_shipped_however_many_batches_it_takes(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        store.keep(*(bloom_value(number) for number in range(5)))
        shipped = await store.shipper.ship(NOW, samples=[("up", {}, 1.0)])
        assert (shipped.is_all, shipped.records, store.filters()) == (True, 5, [0, 1, 2, 3, 4])
        assert len(rows_of(store.lake, "telemetry")) == 1
        assert not len(store.pending)
        assert await store.shipper.ship(NOW) == Shipped()
        assert store.shipper.total.records == 5

    run(scenario())


@pytest.mark.parametrize("budget", [Budget(bytes_max=1), Budget(ms_max=1)], ids=["bytes", "time"])
def test_a_turn_ends_with_its_budget_and_the_next_goes_on(tmp_path: Path, budget: Budget) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        store.ms_per_read = 5
        store.keep(*(bloom_value(number) for number in range(5)))
        assert not (await store.shipper.ship(NOW, budget)).is_all
        assert store.filters() == [0, 1]
        assert not (await store.shipper.ship(NOW, budget)).is_all
        assert (await store.shipper.ship(NOW, budget)).is_all
        assert store.filters() == [0, 1, 2, 3, 4]

    run(scenario())


def test_the_mark_is_shipped_when_all_before_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        store.keep(*(bloom_value(number) for number in range(3)))
        store.mark(100)
        await store.shipper.ship(NOW, Budget(bytes_max=1))
        assert store.marks() == []
        await store.shipper.ship(NOW, Budget(bytes_max=1))
        assert (store.marks(), store.filters()) == ([100], [0, 1, 2])
        await store.shipper.ship(NOW)
        assert store.marks() == [100]

    run(scenario())


@pytest.mark.parametrize("steps", range(6))
def test_a_mark_never_speaks_of_what_is_not_in_the_lake(tmp_path: Path, steps: int) -> None:
    """While a turn is at some step, another filter is stored, and a mark that speaks of it."""

    async def scenario() -> None:
        store = Store(tmp_path, at_once=1)
        store.keep(bloom_value(1))
        store.mark(100)
        turn = asyncio.create_task(store.shipper.ship(NOW))
        for _ in range(steps):
            await asyncio.sleep(0)
        store.keep(bloom_value(2))
        store.mark(200)
        await turn
        spoken_of = {100: {1}, 200: {1, 2}}[max(store.marks())]
        assert spoken_of <= set(store.filters())
        await store.shipper.ship(NOW)
        assert (max(store.marks()), sorted(store.filters())) == (200, [1, 2])

    run(scenario())


def test_turns_follow_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        store.keep(*(bloom_value(number) for number in range(5)))
        one, other = await asyncio.gather(store.shipper.ship(NOW), store.shipper.ship(NOW))
        assert (one.records, other.records, len(store.filters())) == (5, 0, 5)
        # The second had nothing to read but the mark.
        assert store.reads == 1 + 3 + 1

    run(scenario())


def test_what_could_not_be_shipped_still_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store(tmp_path)
        store.lake.write_text("not a folder")
        store.keep(bloom_value(1))
        with pytest.raises(ShipError):
            await store.shipper.ship(NOW)
        assert len(store.pending) == 1
        store.lake.unlink()
        await store.shipper.ship(NOW)
        assert (store.filters(), len(store.pending)) == ([1], 0)

    run(scenario())
