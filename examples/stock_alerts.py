"""A stock-alert service: rules that watch quotes, workers that send alerts, and somebody who knows the last price.

Start two brokers, then each part as a program of its own, as often as you like, at either broker:

    penstock broker examples/stock_alerts.toml --name market
    penstock broker examples/stock_alerts.toml --name office
    python examples/stock_alerts.py rules  penstock://127.0.0.1:7001
    python examples/stock_alerts.py mailer penstock://127.0.0.1:7002
    python examples/stock_alerts.py prices penstock://127.0.0.1:7002
    python examples/stock_alerts.py feed   penstock://127.0.0.1:7001

Kill any of them at any time: every quote that matters raises an alert, and every alert is sent, or ends as a dead
letter (``penstock dead list penstock://127.0.0.1:7001``). A program that is killed between doing something and saying
so does it again: then an alert is raised, or sent, twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Awaitable, Callable

import penstock

WATCHED = "class = 'quote' AND (symbol = 'YHOO' AND price > 20 OR symbol = 'IBM' AND price < 80)"

Send = Callable[[str, bytes], Awaitable[None]]
"""Sends a text to somebody; raises if that fails."""


async def feed(client: penstock.Client, count: int | None = None) -> None:
    """Publish quotes, for ever or up to a number."""
    chance = random.Random(7)
    number = 0
    while count is None or number < count:
        number += 1
        symbol = chance.choice(["YHOO", "IBM", "ORCL"])
        price = round(chance.uniform(10, 30) if symbol == "YHOO" else chance.uniform(70, 120), 2)
        await client.publish({"class": "quote", "symbol": symbol, "price": price}, pubend="quotes")
        await asyncio.sleep(0.01)
    await client.flush()


async def rules(client: penstock.Client) -> None:
    """Turn each quote that matters into an alert; a durable name, so that none is missed while this program is away."""
    async with client.subscribe(WATCHED, durable="rules", acknowledge="manual", pubends=["quotes"]) as quotes:
        async for quote in quotes:
            symbol, price = quote.attributes["symbol"], quote.attributes["price"]
            text = f"{symbol} is at {price}".encode()
            await client.publish({"class": "alert", "symbol": symbol, "quote": quote.tick}, text, pubend="alerts")
            await client.flush()
            # The quote is done when its alert is safe: a crash in between raises the alert twice, and never not.
            quotes.acknowledge_through(quote)


async def mailer(client: penstock.Client, send: Send) -> None:
    """Send alerts, together with all other mailers; alerts about one symbol are sent in their order."""
    async with client.subscribe(
        "class = 'alert'", shared="mailers", shared_by="symbol", deliveries_max=3, pubends=["alerts"]
    ) as alerts:
        async for alert in alerts:
            try:
                await send(str(alert.attributes["symbol"]), alert.payload)
            except OSError as error:
                await alerts.refuse(alert, delay=0.2 * alert.attempt, reason=str(error))
            else:
                await alerts.acknowledge(alert)


async def prices(client: penstock.Client) -> None:
    """Answer what a symbol costs."""
    latest: dict[str, float] = {}

    async def watch() -> None:
        async with client.subscribe("class = 'quote'", pubends=["quotes"]) as quotes:
            async for quote in quotes:
                latest[str(quote.attributes["symbol"])] = float(quote.attributes["price"] or 0)

    watching = asyncio.create_task(watch())
    try:
        async for request in client.serve("service = 'price'"):
            symbol = str(request.attributes.get("symbol"))
            if symbol in latest:
                await request.reply({"price": latest[symbol]})
            else:
                await request.fail(f"nothing is known about {symbol}")
    finally:
        watching.cancel()


async def print_it(symbol: str, text: bytes) -> None:
    """Stands in for a mail server."""
    print(f"to those who watch {symbol}: {text.decode()}", flush=True)


async def main(part: str, url: str) -> None:
    """Run one part of the service."""
    async with penstock.connect(url, name=part) as client:
        match part:
            case "feed":
                await feed(client)
            case "rules":
                await rules(client)
            case "mailer":
                await mailer(client, print_it)
            case "prices":
                await prices(client)
            case _:
                raise SystemExit(f"{part} is not one of feed, rules, mailer, prices")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
