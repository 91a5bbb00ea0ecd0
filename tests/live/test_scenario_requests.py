"""Real brokers: requests, replies, failures, and nobody to serve them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from live.support import run
from penstock.client.client import Client, connect
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.model.errors import InvalidMessageError
from penstock.session.errors import NobodyServesError, RequestFailedError, RequestTimeoutError

PLAN = OverlayPlan({"pb": ("pb.a",), "ib": (), "sb": ()}, [("pb", "ib"), ("sb", "ib")])


@pytest.fixture
def overlay() -> Iterator[DemoOverlay]:
    with DemoOverlay(PLAN) as made:
        run(made.linked())
        yield made


async def serve(client: Client) -> None:
    async for request in client.serve("service = 'price'"):
        symbol = request.attributes["symbol"]
        if symbol == "YHOO":
            await request.reply({"price": 18}, b"reply to " + request.payload)
        elif symbol == "IBM":
            await request.fail("no such symbol")


@pytest.mark.live
def test_requests_are_answered_fail_or_find_nobody(overlay: DemoOverlay) -> None:
    async def play() -> None:
        async with connect(overlay.url("sb")) as server, connect(overlay.url("pb")) as client:
            with pytest.raises(NobodyServesError):
                await client.request({"service": "price", "symbol": "YHOO"}, timeout=30)
            serving = asyncio.create_task(serve(server))
            # Known to the requester's broker as soon as another subscription that came later is in force.
            await asyncio.sleep(0)
            await server.subscribe("later = 1").ready()
            reply = await client.request({"service": "price", "symbol": "YHOO"}, b"a request", timeout=30)
            assert (reply.attributes["price"], reply.payload) == (18, b"reply to a request")
            with pytest.raises(RequestFailedError, match="no such symbol"):
                await client.request({"service": "price", "symbol": "IBM"}, timeout=30)
            with pytest.raises(RequestTimeoutError, match=r"no reply within 0\.3 s"):
                await client.request({"service": "price", "symbol": "DELL"}, timeout=0.3)
            with pytest.raises(NobodyServesError):
                await client.request({"service": "volume"}, timeout=30)
            with pytest.raises(InvalidMessageError, match="reserved"):
                await client.request({"$reply_to": "me"}, timeout=30)
            many = [client.request({"service": "price", "symbol": "YHOO"}, timeout=30) for _ in range(50)]
            assert [each.attributes["price"] for each in await asyncio.gather(*many)] == [18] * 50
            serving.cancel()

    run(play())


@pytest.mark.live
def test_of_several_servers_the_first_reply_counts_also_for_blocking_programs(overlay: DemoOverlay) -> None:
    with connect_sync(overlay.url("sb")) as first, connect_sync(overlay.url("ib")) as second:
        serving = [each.serve("service = 'name'").ready() for each in (first, second)]

        def answer(number: int) -> None:
            request = next(serving[number])
            request.reply({"name": number, "asked": request.attributes["service"]}, request.payload)

        threads = [threading.Thread(target=answer, args=(number,)) for number in range(2)]
        for each in threads:
            each.start()
        with connect_sync(overlay.url("pb")) as client:
            reply = client.request({"service": "name"}, b"who", timeout=30)
            assert reply.attributes["name"] in (0, 1)
            assert (reply.attributes["asked"], reply.payload) == ("name", b"who")
            for each in threads:
                each.join()
            second.flush()
            first.flush()
            with pytest.raises(NobodyServesError):
                client.request({"service": "nobody"}, timeout=30)
            while not client.late_replies:
                client.status()
            assert client.late_replies == 1
