"""Shipping as part of a node: by interval, on demand, through restarts, and not at all without a lake."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from live.shipping.lakes import bloom_value, rows_of
from live.support import FakeBroker, FramePeer, guaranteed, lone, run, until
from penstock.broker.durable import KeepRecord
from penstock.broker.effects import Commit, Operate, Record
from penstock.live.errors import ConfigError, StorageError
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay
from penstock.live.shipping import arrow
from penstock.live.shipping.errors import ShipError
from penstock.live.shipping.ledger import FILE_NAME
from penstock.live.shipping.settings import ShipSettings
from penstock.protocol.frames import Forget, Forgotten, Subscribe, Subscribed
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.settings import TrackingSettings

NEVER_MS = 10**9


def shipping(tmp_path: Path, interval_ms: int = NEVER_MS, **changes: Any) -> Overlay:
    settings = ShipSettings(tmp_path / "lake", interval_ms=interval_ms, **changes)
    return replace(guaranteed(tmp_path / "data"), ship=settings)


def events(tmp_path: Path) -> list[tuple[str, str]]:
    return [(row["event"], row["neighbour"]) for row in rows_of(tmp_path / "lake", "topology")]


async def attach(node: BrokerNode, name: str) -> FramePeer:
    client = await FramePeer.client(node.address, name)
    await client.subscribe(1, "number > 2")
    return client


def test_without_a_lake_nothing_is_shipped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNode(guaranteed(tmp_path / "data"), "b1") as node:
            assert node.status().shipping == {}
            with pytest.raises(ConfigError, match="broker b1 ships nothing: its overlay file names no lake"):
                await node.ship()
        assert not (tmp_path / "data" / FILE_NAME).exists()

    run(scenario())


def test_what_happens_at_a_broker_is_in_the_lake_when_somebody_asks_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNode(shipping(tmp_path), "b1") as node:
            client = await attach(node, "alice")
            client.publish(*({"number": number} for number in range(5)))
            await client.deliveries(2)
            lake = tmp_path / "lake"

            async def histories() -> set[str]:
                assert (await node.ship())["is_all"]
                return {row["history"] for row in rows_of(lake, "histories")}

            # What is recorded is stored within a second, and can be shipped then.
            while await histories() != {"publish/1", "deliver/1"}:
                await asyncio.sleep(0.05)
            (subscription, *_) = rows_of(lake, "subscriptions", lambda row: row["number"])
            assert (subscription["subscriber"], subscription["selector"]) == ("alice", "number > 2")
            assert dict(subscription["starts"]).keys() == {"b1.a"}
            published = [row for row in rows_of(lake, "telemetry") if row["metric"] == "penstock_published_total"]
            assert published[-1]["value"] == 5
            assert node.status().shipping["records"] > 0
            assert node.status().shipping["waiting"] == 0
            await client.close()

    run(scenario())


def test_a_broker_ships_by_itself_every_interval(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNode(shipping(tmp_path, interval_ms=100), "b1"):
            await until(lambda: len({row["sequence"] for row in rows_of(tmp_path / "lake", "telemetry")}) >= 3)

    run(scenario())


def test_a_broker_ships_when_the_token_is_there_and_says_when_it_is_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        fake = FakeBroker()
        async with BrokerNode(shipping(tmp_path, when="token"), "b1", broker=fake) as node:
            # An interval passes without shipping: only the token counts.
            assert not (tmp_path / "lake").exists()
            now_ms = node.clock.now_ms()
            node.stimulate(lambda _broker, _now_ms: [Operate("5/b1.1:1/1", now_ms + 1_000)])
            await until(lambda: ("operated", "5/b1.1:1/1") in fake.asked)
            assert {row["sequence"] for row in rows_of(tmp_path / "lake", "telemetry")} == {1}
            assert node.status().shipping["shipped_ms"] >= now_ms

    run(scenario())


def test_a_broker_that_ships_by_interval_lets_the_token_pass(tmp_path: Path) -> None:
    async def scenario() -> None:
        fake = FakeBroker()
        async with BrokerNode(shipping(tmp_path), "b1", broker=fake) as node:
            node.stimulate(lambda _broker, _now_ms: [Operate("5/b1.1:1/1", node.clock.now_ms() + 1_000)])
            await until(lambda: ("operated", "5/b1.1:1/1") in fake.asked)
            assert not (tmp_path / "lake").exists()

    run(scenario())


def test_a_lake_that_fails_does_not_keep_the_token(tmp_path: Path) -> None:
    async def scenario() -> None:
        fake = FakeBroker()
        (tmp_path / "lake").write_text("not a folder")
        async with BrokerNode(shipping(tmp_path, when="token"), "b1", broker=fake) as node:
            node.stimulate(lambda _broker, _now_ms: [Operate("5/b1.1:1/1", node.clock.now_ms() + 1_000)])
            await until(lambda: ("operated", "5/b1.1:1/1") in fake.asked)
            assert "cannot be written" in node.status().shipping["problem"]

    run(scenario())


def test_a_restart_ships_what_the_life_before_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNode(shipping(tmp_path), "b1") as node:
            await (await attach(node, "alice")).close()
        assert not (tmp_path / "lake").exists()
        async with BrokerNode(shipping(tmp_path), "b1") as node:
            await node.ship()
            await node.ship()
        (row,) = rows_of(tmp_path / "lake", "attachments")
        assert (row["subscriber"], row["detached_at"] is not None) == ("alice", True)
        assert events(tmp_path) == [("start", ""), ("stop", ""), ("start", "")]

    run(scenario())


def test_positions_of_durable_subscriptions_are_shipped_and_forgotten_ones_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNode(shipping(tmp_path), "b1") as node:
            client = await FramePeer.client(node.address)
            client.send(Subscribe(1, "number > 2", durable="orders"))
            await client.get(Subscribed)
            await node.ship()
            client.send(Forget(1, "orders"))
            await client.get(Forgotten)
            await node.ship()
            await client.close()
        rows = rows_of(tmp_path / "lake", "positions")
        assert {(row["pubend"], row["subscription"]) for row in rows} == {("b1.a", "orders")}
        assert (rows[0]["host"], rows[0]["acknowledged"] > 0) == ("b1", True)
        assert [row["is_forgotten"] for row in rows] == [False, True]
        (subscription,) = rows_of(tmp_path / "lake", "subscriptions", lambda row: row["number"])
        assert (subscription["subscriber"], subscription["is_durable"]) == ("orders", True)

    run(scenario())


def test_links_that_come_and_go_are_events_and_nothing_else_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        fake = FakeBroker()
        async with BrokerNode(shipping(tmp_path), "b1", broker=fake) as node:
            for event in ("link-up", "something", "link-down"):
                fake.answers.append(Record(event, (("neighbour", "b2"),)))
            peer = await FramePeer.dial(node.address)
            await until(lambda: fake.count("connect"))
            await node.ship()
            await peer.close()
        assert events(tmp_path) == [("start", ""), ("link-up", "b2"), ("link-down", "b2")]

    run(scenario())


def test_a_record_is_shipped_after_its_commit(tmp_path: Path) -> None:
    async def scenario() -> None:
        fake = FakeBroker()
        (keep,) = AttachmentMap().attach("alice", {}, now_ms=1)[1]
        async with BrokerNode(shipping(tmp_path), "b1", broker=fake) as node:
            fake.answers.append(Commit(1, (KeepRecord(keep.name, keep.value),)))
            peer = await FramePeer.dial(node.address)
            await until(lambda: fake.count("committed"))
            await node.ship()
            # The broker hears nothing of reads that are not its own.
            assert not fake.count("kept")
            await peer.close()
        assert [row["subscriber"] for row in rows_of(tmp_path / "lake", "attachments")] == ["alice"]

    run(scenario())


def test_a_lake_that_cannot_be_written_is_told_and_the_broker_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "lake").write_text("not a folder")
        async with BrokerNode(shipping(tmp_path, interval_ms=100), "b1") as node:
            with pytest.raises(ShipError, match="the lake cannot be written"):
                await node.ship()
            await until(lambda: "the lake cannot be written" in node.status().shipping["problem"])
            assert node.is_serving
            (tmp_path / "lake").unlink()
            await until(lambda: not node.status().shipping["problem"])

    run(scenario())


def test_shipped_filters_are_given_up_after_their_retention(tmp_path: Path) -> None:
    async def scenario() -> None:
        fake = FakeBroker()
        name, value = bloom_value(1)
        young = bloom_value(2, opened_ms=10**14)
        async with BrokerNode(shipping(tmp_path, retain_ms=1_000), "b1", broker=fake) as node:
            fake.answers.append(Commit(1, (KeepRecord(name, value), KeepRecord(*young))))
            peer = await FramePeer.dial(node.address)
            await until(lambda: fake.count("committed"))
            await node.ship()
            assert [each for each in fake.asked if each[0] == "retire"] == [("retire", (name,))]
            await peer.close()

    run(scenario())


def test_a_real_broker_gives_up_what_is_in_the_lake(tmp_path: Path) -> None:
    async def scenario() -> None:
        overlay = shipping(tmp_path, retain_ms=1)
        place = replace(overlay.brokers["b1"], tracking=TrackingSettings(strategy="exact", persist_ms=50))
        async with BrokerNode(replace(overlay, brokers={"b1": place}), "b1") as node:
            client = await FramePeer.client(node.address)
            client.publish({"number": 1})

            async def is_given_up() -> bool:
                await node.ship()
                tracking = node.status().broker.tracking
                return bool(rows_of(tmp_path / "lake", "records")) and tracking.filters_kept == 0

            while not await is_given_up():
                await asyncio.sleep(0.02)
            (record,) = rows_of(tmp_path / "lake", "records")
            assert (record["history"], record["place"]) == ("publish/1", 0)
            await client.close()

    run(scenario())


def test_a_ledger_that_cannot_be_used_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "data" / FILE_NAME).mkdir(parents=True)
        with pytest.raises(StorageError, match="broker b1 cannot ship: the ledger cannot be used"):
            await BrokerNode(shipping(tmp_path), "b1").start()
        # The store was let go of.
        async with BrokerNode(guaranteed(tmp_path / "data"), "b1"):
            pass

    run(scenario())


def test_who_has_a_lake_needs_pyarrow_and_a_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        with pytest.raises(StorageError, match=r"broker b1 ships to a lake .* but has no data folder"):
            await BrokerNode(replace(lone(), ship=ShipSettings(tmp_path)), "b1").start()
        monkeypatch.setattr(arrow, "find_spec", lambda _name: None)
        with pytest.raises(ConfigError, match=r"broker b1 ships to a lake .* needs pyarrow"):
            await BrokerNode(shipping(tmp_path), "b1").start()
        async with BrokerNode(guaranteed(tmp_path / "data"), "b1"):
            pass

    run(scenario())
