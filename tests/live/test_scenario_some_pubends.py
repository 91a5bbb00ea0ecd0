"""Real brokers: subscriptions to some pubends, and durable subscriptions as an operator sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from live.support import run
from penstock.client.client import Client, connect
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.session.errors import RefusedError

PLAN = OverlayPlan({"pb1": ("orders",), "pb2": ("trades",), "sb": ()}, [("pb1", "sb"), ("pb2", "sb")])


@pytest.fixture
def overlay() -> Iterator[DemoOverlay]:
    with DemoOverlay(PLAN) as made:
        run(made.linked())
        yield made


async def both_known(client: Client) -> None:
    while len(client.pubends) < 2:
        await asyncio.sleep(0.02)


@pytest.mark.live
def test_a_subscription_gets_its_pubends_and_its_name_is_kept_there_only(overlay: DemoOverlay) -> None:
    async def play() -> None:
        async with connect(overlay.url("sb")) as client:
            await both_known(client)
            some = await client.subscribe("n > 0", pubends=["orders"], durable="billing").ready()
            missing = await client.subscribe("n > 0", pubends=["orders", "nowhere"]).ready()
            assert missing.pending == ("nowhere",)
            everything = await client.subscribe("n > 0").ready()
            for number in range(1, 11):
                await client.publish({"n": number}, pubend="trades")
                await client.publish({"n": number}, pubend="orders")
            await client.flush()
            got = [await everything.get() for _ in range(20)]
            assert {each.pubend for each in got} == {"orders", "trades"}
            assert [(each.pubend, each.attributes["n"]) for each in [await some.get() for _ in range(10)]] == [
                ("orders", number) for number in range(1, 11)
            ]
            assert (some.queued, list(some.positions)) == (0, ["orders"])
            found = await client.durables()
            assert {name: list(at) for name, at in found.names.items()} == {"billing": ["orders"]}
            assert found.unreachable == ()
            at = found.names["billing"]["orders"]
            assert (at.broker, at.away_ms, at.selector, at.is_exact) == ("sb", None, "n > 0", True)
            with pytest.raises(RefusedError, match="no guaranteed pubend 'nowhere'"):
                await client.forget("billing", pubends=["nowhere"])
            await some.close()
            for number in range(11, 16):
                await client.publish({"n": number}, pubend="orders")
            await client.flush()
            at = (await client.durables("billing")).names["billing"]["orders"]
            assert at.messages == 5
            with connect_sync(overlay.url("sb")) as blocking:
                # Not in an event loop of its own: the test's is busy waiting for it, and has nothing else to do.
                with blocking.subscribe("n > 0", pubends=["orders"], durable="billing") as again:
                    numbers = [message.attributes["n"] for _, message in zip(range(5), again, strict=False)]
                assert numbers == [11, 12, 13, 14, 15]
                assert blocking.forget("billing", pubends=["orders"]) == ()
                assert blocking.durables().names == {}

    run(play())
