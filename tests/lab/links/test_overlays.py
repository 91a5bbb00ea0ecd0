"""Brokers whose links are relays: messages pass, a cut parts them, and a restored link brings what was missed."""

from __future__ import annotations

import asyncio

from penstock.lab.demo_overlay import OverlayPlan
from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.overlays import LinkedOverlay, RelayedOverlay
from penstock.system.loop import run

LIMIT_S = 60.0
LINK = ("b1", "b2")
PLAN = OverlayPlan({"b1": ("a",), "b2": ()}, [LINK], {"heartbeat_ms": 100, "silent_ms": 1_000})


async def carries_what_was_missed(overlay: LinkedOverlay) -> None:
    """What any overlay with links must be able to do."""
    await overlay.linked()
    async with overlay.client("b1", "publisher") as publisher, overlay.client("b2", "subscriber") as subscriber:
        wanted = subscriber.subscribe("TRUE")
        await wanted.ready()
        await publisher.publish({"number": 1})
        got = aiter(wanted)
        assert (await anext(got)).attributes["number"] == 1
        passed = overlay.passed_bytes(LINK)
        assert passed > 0
        overlay.cut(LINK)
        while "b2" in (await publisher.status()).links:
            await asyncio.sleep(0.02)
        await publisher.publish({"number": 2})
        overlay.limit(LINK, 100_000.0)
        overlay.restore(LINK)
        assert (await anext(got)).attributes["number"] == 2
        assert overlay.passed_bytes(LINK) > passed
        overlay.limit(LINK, 0.0)
        overlay.check()


def limited(overlay: LinkedOverlay) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(LIMIT_S):
            await carries_what_was_missed(overlay)

    with overlay:
        run(scenario())


def test_relays_are_links() -> None:
    limited(RelayedOverlay(PLAN, LinkLimits(buffer_bytes=10_000)))
