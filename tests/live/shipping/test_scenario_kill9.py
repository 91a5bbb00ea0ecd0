"""A real broker is killed in the middle of shipping: what its store has is in the lake, and each state of it once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from live.shipping.lakes import parquet_files, rows_of
from live.support import run
from penstock.client.client import connect
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.live.store import LogStore
from penstock.tracking.stored import StoredFilter, decode_filter

BROKER = "pb1"
KILLS = 2
MESSAGES = 100


@dataclass(slots=True, frozen=True)
class ShippingPlan(OverlayPlan):
    """An overlay that ships all the time, small filters and many of them."""

    def toml(self, ports: Mapping[str, int]) -> str:
        """The overlay file."""
        tracking = ("persist_ms = 30", "buffer_bytes = 300", "publish_rate_max = 100", "delivery_rate_max = 100")
        lines = ["[tracking]", *tracking, "[ship]", 'lake = "lake"', "interval_ms = 100"]
        # A call without arguments would not find the class: one with slots is made twice.
        return OverlayPlan.toml(self, ports) + "\n".join(lines) + "\n"


def staged(lake: Path) -> list[Path]:
    """Files with filters that do not count yet."""
    return list((lake / "_staging").rglob("*-histories-*.parquet"))


async def trade(overlay: DemoOverlay) -> None:
    """Publish and receive: filters fill."""
    async with connect(overlay.url(BROKER), name="feed") as feed, connect(overlay.url(BROKER), name="alice") as alice:
        subscription = await alice.subscribe("TRUE").ready()
        for number in range(MESSAGES):
            await feed.publish({"number": number})
        for _ in range(MESSAGES):
            await subscription.get()


async def kill_while_it_ships(overlay: DemoOverlay, lake: Path) -> None:
    """Wait until files are on their way, hold the broker there, and kill it."""
    while True:
        if staged(lake):
            overlay.pause(BROKER)
            if staged(lake):
                overlay.kill(BROKER)
                return
            overlay.resume(BROKER)
        await asyncio.sleep(0.001)


async def turns(lake: Path, count: int) -> None:
    """Wait for so many turns of shipping; whatever waits is in one of the first two."""
    # Each has a sample of the broker's figures, in a file of its own.
    before = len(parquet_files(lake, "telemetry"))
    while len(parquet_files(lake, "telemetry")) < before + count:
        await asyncio.sleep(0.01)


def stored_filters(folder: Path) -> tuple[list[StoredFilter], list[str]]:
    """The filters in the broker's store, and the names of its other records."""
    with closing(LogStore.open(folder, overlay="demo", broker=BROKER)) as store:
        names = list(store.recovered().kept)
        filters = []
        for name in names:
            if name.startswith("filter/"):
                value = store.read_kept([name], bytes_max=1 << 20).values[name]
                assert value is not None
                filters.append(decode_filter(value))
    return filters, names


@pytest.mark.live
def test_nothing_is_shipped_twice_and_nothing_is_lost_however_often_it_is_killed() -> None:
    async def interrupted(overlay: DemoOverlay, lake: Path) -> None:
        await trade(overlay)
        trading = asyncio.create_task(trade(overlay))
        await kill_while_it_ships(overlay, lake)
        trading.cancel()
        await asyncio.wait([trading])

    with DemoOverlay(ShippingPlan({BROKER: (f"{BROKER}.a",)})) as overlay:
        lake = overlay.file.parent / "lake"
        for _ in range(KILLS):
            run(interrupted(overlay, lake))
            overlay.start(BROKER)
        run(turns(lake, 2))
        overlay.kill(BROKER)
        overlay.start(BROKER)
        run(turns(lake, 3))
        overlay.kill(BROKER)
        filters, names = stored_filters(overlay.file.parent / "data" / BROKER)
        shipped = rows_of(lake, "histories")
        states = [(row["history"], row["filter_id"], row["generation"], row["is_open"]) for row in shipped]
        assert len(set(states)) == len(states)
        newest = {(row["history"], row["filter_id"]): row for row in sorted(shipped, key=lambda row: row["generation"])}
        assert len(filters) >= 4
        assert set(newest) >= {(str(each.header.key), each.header.filter_id) for each in filters}
        for each in filters:
            row = newest[str(each.header.key), each.header.filter_id]
            assert (row["generation"], row["count"], row["bits"]) == (
                each.header.generation,
                each.header.count,
                each.body,
            )
        attachments = rows_of(lake, "attachments")
        ended = [(row["number"], row["detached_at"]) for row in attachments]
        assert len(set(ended)) == len(ended)
        assert {f"attachment/{row['number']:012x}" for row in attachments} == {
            name for name in names if name.startswith("attachment/")
        }
        # Every life is on record once.
        starts = [row["at"] for row in rows_of(lake, "topology") if row["event"] == "start"]
        assert len(starts) == len(set(starts)) == KILLS + 2
