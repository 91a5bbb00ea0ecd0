"""Publishers and subscribers of the live proof: what one broker delivers is right, and what is wrong is seen."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from penstock.lab.delivery.kill9.oracle import Ledger
from penstock.lab.delivery.kill9.plan import HOSTS, PLAN, SELECTORS, SOURCES
from penstock.lab.delivery.kill9.traffic import Subscriber, trading
from penstock.lab.demo_overlay import DemoOverlay
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.session.received import Received
from penstock.system.loop import run


@pytest.mark.live
def test_undisturbed_everybody_gets_what_is_right() -> None:
    heard: list[tuple[str, str, float]] = []

    async def scenario(overlay: DemoOverlay) -> None:
        await overlay.linked()
        async with asyncio.timeout(60), trading(overlay, lambda *each: heard.append(each)) as traffic:
            reading = [asyncio.create_task(each.read()) for each in traffic.subscribers]
            await traffic.publish(Random(1), 400.0, 0.3)
            await traffic.settle()
            for task in reading:
                task.cancel()
            assert traffic.acked == traffic.ledger.published > 0
            assert traffic.delivered == len(heard) + sum(
                len(reading.numbers)
                for each in traffic.subscribers
                if each.number % len(SELECTORS)
                for reading in each.readings
            )
            assert traffic.strange == traffic.repeated == 0
            assert all(verdict.first_difference is None for verdict in traffic.verdicts().values())

    with DemoOverlay(PLAN) as overlay:
        run(scenario(overlay))
    assert {(host, source) for host, source, _ in heard} == {(host, source) for host in HOSTS for source in SOURCES}


def test_a_message_that_nobody_published_so_is_strange() -> None:
    class NoSubscription:
        """Nothing is read here."""

    ledger = Ledger(4, list(SELECTORS) * len(HOSTS))
    message = ledger.issue(0, {"volume": 1}, now_s=0.0)
    subscriber = Subscriber(0, NoSubscription(), ledger)  # type: ignore[arg-type]

    def received(attributes: dict[str, object], payload: bytes) -> Received:
        return Received("pb1.a", 1, encode_body(MessageId(1, 2, 3, 0), Message(attributes, payload)))  # type: ignore[arg-type]

    subscriber._take(received({**message}, bytes(range(100))))
    assert subscriber.readings[0].numbers == [1]
    subscriber._take(received({**message, "volume": 2}, bytes(range(100))))
    subscriber._take(received({**message}, b"other"))
    assert subscriber.strange == 2
    assert subscriber.readings[0].numbers == [1]
