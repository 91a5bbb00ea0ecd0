"""The examples run: every alert of the stock-alert service is sent once, and what cannot be sent is a dead letter."""

from __future__ import annotations

import asyncio
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from live.support import run
from penstock.client.client import connect
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan

_FOUND = spec_from_file_location("stock_alerts", Path(__file__).parents[2] / "examples" / "stock_alerts.py")
assert _FOUND is not None
assert _FOUND.loader is not None
stock_alerts = module_from_spec(_FOUND)
_FOUND.loader.exec_module(stock_alerts)

PLAN = OverlayPlan(
    {"market": ("quotes", "alerts", "dead"), "office": ()}, [("office", "market")], words={"dead_letters": "dead"}
)
QUOTES = 150


@pytest.mark.live
def test_alerts_are_sent_once_whoever_dies() -> None:
    sent: Counter[bytes] = Counter()
    tried: Counter[bytes] = Counter()
    poison = b""

    async def send(symbol: str, text: bytes) -> None:
        nonlocal poison
        poison = poison or text
        tried[text] += 1
        if text == poison:
            raise OSError(f"nobody watches {symbol}")
        await asyncio.sleep(0.001)
        sent[text] += 1

    async def play(overlay: DemoOverlay) -> None:
        await overlay.linked()
        office, market = overlay.url("office"), overlay.url("market")
        async with (
            connect(market) as feeding,
            connect(office) as one,
            connect(office) as two,
            connect(market) as ruling,
            connect(office) as operator,
        ):
            quotes = await operator.subscribe(stock_alerts.WATCHED, pubends=["quotes"]).ready()
            dead = await operator.subscribe("dead_group = 'mailers'", pubends=["dead"]).ready()
            parts = [
                asyncio.create_task(each)
                for each in (
                    stock_alerts.rules(ruling),
                    stock_alerts.mailer(one, send),
                    stock_alerts.mailer(two, send),
                    stock_alerts.prices(operator),
                )
            ]
            # Both have to be known before the first quote.
            while {"rules", "mailers"} - {*(await operator.durables()).names}:
                await asyncio.sleep(0.05)
            with pytest.raises(Exception, match="nothing is known about NOBODY"):
                await operator.request({"service": "price", "symbol": "NOBODY"}, timeout=20)
            await stock_alerts.feed(feeding, QUOTES)
            wanted = [quotes.queued, 0]
            while wanted[0] != wanted[1]:
                await asyncio.sleep(0.5)
                wanted = [quotes.queued, wanted[0]]
            letter = await dead.get()
            assert letter.payload == poison
            assert letter.attributes["dead_attempts"] == 3
            while sum(sent.values()) + 1 < wanted[0]:
                await asyncio.sleep(0.05)
            reply = await operator.request({"service": "price", "symbol": "YHOO"}, timeout=20)
            assert reply.attributes["price"] is not None
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    with DemoOverlay(PLAN) as overlay:
        run(play(overlay))
    assert poison not in sent
    assert tried[poison] == 3
    assert sum(sent.values()) > 20
