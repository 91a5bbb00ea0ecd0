"""Real brokers: subscribers that begin with the last values get these first, and then all that is published."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from live.support import run
from penstock.cli.app import app
from penstock.client.client import connect
from penstock.client.subscription import Subscription
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan

FORGETFUL = OverlayPlan(
    {"pb1": ("pb1.a", "pb1.b"), "sb": ()},
    [("pb1", "sb")],
    defaults={"retain_ms": 200, "grace_ms": 1_500, "report_ms": 200},
    last_values={"pb1.a": "symbol"},
)
"""Logs are trimmed as soon as everybody has what is in them."""
PLAN = OverlayPlan({"pb1": ("pb1.a",), "pb2": ("pb2.a",), "sb": ()}, [("pb1", "sb"), ("pb2", "sb")])
SYMBOLS = 20
MESSAGES = 3_000


@pytest.fixture
def overlay() -> Iterator[DemoOverlay]:
    with DemoOverlay(PLAN) as made:
        run(made.linked())
        yield made


async def read(subscription: Subscription, count: int) -> list[int]:
    got = []
    for _ in range(count):
        number = (await subscription.get()).attributes["number"]
        assert isinstance(number, int)
        got.append(number)
    return got


@pytest.mark.live
def test_last_values_come_first_while_messages_are_published_and_a_home_is_killed(overlay: DemoOverlay) -> None:
    async def play() -> None:
        async with connect(overlay.url("sb"), name="feed") as feed, connect(overlay.url("sb"), name="late") as late:
            while len(feed.pubends) < 2:
                await asyncio.sleep(0.02)

            async def publish(numbers: range) -> None:
                for number in numbers:
                    # Each symbol in one pubend, so that its messages are in order.
                    symbol = number % SYMBOLS
                    pubend = ("pb1.a", "pb2.a")[symbol % 2]
                    await feed.publish({"symbol": symbol, "number": number}, bytes(500), pubend=pubend)
                await feed.flush()

            await publish(range(MESSAGES))
            publishing = asyncio.create_task(publish(range(MESSAGES, 2 * MESSAGES)))
            overlay.kill("pb2")
            subscription = late.subscribe("number >= 0", start="last", key="symbol")
            await asyncio.sleep(0)
            overlay.start("pb2")
            await subscription.ready()
            await publishing
            first = await read(subscription, SYMBOLS)
            # The last value of each symbol, and from there on every one of its messages.
            newest = {number % SYMBOLS: number for number in first}
            assert len(newest) == SYMBOLS
            due = {symbol: [*range(number + SYMBOLS, 2 * MESSAGES, SYMBOLS)] for symbol, number in newest.items()}
            rest = await read(subscription, sum(map(len, due.values())))
            got: dict[int, list[int]] = {symbol: [] for symbol in due}
            for number in rest:
                got[number % SYMBOLS].append(number)
            assert got == due
            assert (subscription.queued, subscription.lost_count) == (0, 0)

    run(play())


@pytest.mark.live
def test_the_blocking_client_and_the_command_line_begin_with_last_values(overlay: DemoOverlay) -> None:
    with connect_sync(overlay.url("sb"), name="feed") as client:
        while len(client.pubends) < 2:
            client.status()
        for number in range(10):
            client.publish({"symbol": "ab"[number % 2], "number": number}, pubend="pb1.a")
        client.flush()
        with client.subscribe("TRUE", start="last", key="symbol") as messages:
            assert [messages.get().attributes["number"] for _ in range(2)] == [8, 9]
            client.publish({"symbol": "a", "number": 10}, pubend="pb1.a")
            assert messages.get().attributes["number"] == 10
    result = CliRunner().invoke(app, ["subscribe", overlay.url("sb"), "TRUE", "--last", "symbol", "--count", "2"])
    assert result.exit_code == 0, result.stderr
    assert [line.split("number=")[1].split()[0] for line in result.stdout.splitlines()] == ["9", "10"]


@pytest.mark.live
def test_last_values_outlive_their_log_and_the_broker() -> None:
    async def trimmed(overlay: DemoOverlay) -> None:
        async with connect(overlay.url("pb1"), name="feed") as feed:
            for number in range(MESSAGES):
                await feed.publish({"symbol": number % SYMBOLS, "number": number}, bytes(500), pubend="pb1.a")
            await feed.flush()
            last_tick = (await feed.status()).guaranteed.pubends["pb1.a"].last_tick
            while True:
                figures = (await feed.status()).guaranteed.pubends["pb1.a"]
                if figures.size_bytes == 0 and figures.trimmed_below > 0 and figures.last_tick >= last_tick:
                    break
                await asyncio.sleep(0.1)
            assert figures.last_values is not None
            assert (figures.last_values.key, figures.last_values.keys) == ("symbol", SYMBOLS)
            assert figures.last_values.dropped == 0

    async def play(overlay: DemoOverlay) -> None:
        await trimmed(overlay)
        overlay.kill("pb1")
        overlay.start("pb1")
        await overlay.linked()
        async with connect(overlay.url("sb"), name="late") as late:
            subscription = late.subscribe("number >= 0", start="last", key="symbol")
            assert await read(subscription, SYMBOLS) == [*range(MESSAGES - SYMBOLS, MESSAGES)]
            await subscription.ready()
            async with connect(overlay.url("sb"), name="feed") as feed:
                await feed.publish({"symbol": 3, "number": MESSAGES}, pubend="pb1.a")
                await feed.flush()
            assert await read(subscription, 1) == [MESSAGES]
            assert (subscription.queued, subscription.lost_count) == (0, 0)
            narrow = late.subscribe("symbol < 5", start="last", key="symbol")
            numbers = await read(narrow, 5)
            assert sorted(number % SYMBOLS for number in numbers if number != MESSAGES) == [0, 1, 2, 4]

    with DemoOverlay(FORGETFUL) as overlay:
        run(overlay.linked())
        run(play(overlay))
        command = ["subscribe", overlay.url("sb"), "symbol = 7", "--last", "symbol", "--count", "1"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.stderr
        assert f"number={MESSAGES - SYMBOLS + 7}" in result.stdout
        shown = CliRunner().invoke(app, ["status", overlay.url("pb1")])
        assert "last values beyond logs" in shown.stdout
