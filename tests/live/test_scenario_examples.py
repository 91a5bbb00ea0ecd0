"""The examples run: every alert of the stock-alert service is sent, and what cannot be sent is a dead letter."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
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


async def killed_mailer(url: str, sent: Counter[bytes]) -> None:
    """Runs a mailer as a process, and kills it when it has sent some alerts; counts what it sent."""
    script = str(stock_alerts.__file__)
    process = await asyncio.create_subprocess_exec(sys.executable, script, "mailer", url, stdout=PIPE)
    assert process.stdout is not None
    for _ in range(3):
        line = await process.stdout.readline()
        sent[line.rstrip(b"\n").partition(b": ")[2]] += 1
    process.kill()
    for line in (await process.stdout.read()).splitlines():
        sent[line.partition(b": ")[2]] += 1
    assert await process.wait() < 0


@pytest.mark.live
def test_every_alert_is_sent_though_a_mailer_is_killed() -> None:
    raised: Counter[bytes] = Counter()
    sent: Counter[bytes] = Counter()
    tried: Counter[bytes] = Counter()
    poison = b""

    async def send(symbol: str, text: bytes) -> None:
        nonlocal poison
        poison = poison or text
        tried[text] += 1
        if text == poison and tried[text] <= 3:
            raise OSError(f"nobody watches {symbol}")
        await asyncio.sleep(0.001)
        sent[text] += 1

    async def play(overlay: DemoOverlay) -> None:
        await overlay.linked()
        office, market = overlay.url("office"), overlay.url("market")
        async with (
            connect(market) as feeding,
            connect(office) as mailing,
            connect(market) as ruling,
            connect(office) as operator,
        ):
            quotes = await operator.subscribe(stock_alerts.WATCHED, pubends=["quotes"]).ready()
            alerts = await operator.subscribe("class = 'alert'", pubends=["alerts"]).ready()
            dead = await operator.subscribe("dead_group = 'mailers'", pubends=["dead"]).ready()
            parts = [
                asyncio.create_task(each)
                for each in (
                    stock_alerts.rules(ruling),
                    stock_alerts.mailer(mailing, send),
                    stock_alerts.prices(operator),
                )
            ]
            # Both have to be known before the first quote.
            while {"rules", "mailers"} - {*(await operator.durables()).names}:
                await asyncio.sleep(0.05)
            with pytest.raises(Exception, match="nothing is known about NOBODY"):
                await operator.request({"service": "price", "symbol": "NOBODY"}, timeout=20)
            quoting = asyncio.create_task(stock_alerts.feed(feeding))
            letter = await dead.get()
            assert letter.payload == poison
            assert letter.attributes["dead_attempts"] == 3
            await killed_mailer(office, sent)
            quoting.cancel()
            await asyncio.wait([quoting])
            await feeding.flush()
            before = -1
            while alerts.queued != quotes.queued or alerts.queued != before:
                before = alerts.queued
                await asyncio.sleep(0.5)
            raised.update([each.payload for each in await alerts.batch()])
            while raised - sent != Counter([poison]):
                await asyncio.sleep(0.05)
            reply = await operator.request({"service": "price", "symbol": "YHOO"}, timeout=20)
            assert reply.attributes["price"] is not None
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    with DemoOverlay(PLAN) as overlay:
        run(play(overlay))
    # The one that was being sent when its mailer was killed may have been sent, and is sent again then.
    assert (sent - raised).total() <= 1
