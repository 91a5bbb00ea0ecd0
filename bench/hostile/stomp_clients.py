"""Attacks on the STOMP port of a broker: as strangers, and as clients that make it hoard, wait or work too much."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from bench.hostile.arena import memory_mib
from bench.hostile.hoarders import grown
from bench.hostile.stage import Stage, Told
from bench.hostile.stomp_wire import StompLine, frame
from bench.hostile.strangers import crowd
from bench.hostile.wire import Rejected

__all__ = [
    "announced_bodies",
    "begun_subscriptions",
    "bombs",
    "dribbled_frames",
    "endless_names",
    "endless_subscriptions",
    "flooded_heads",
    "idle_strangers",
    "open_transactions",
    "unacknowledged_messages",
    "unread_messages",
    "unread_receipts",
    "unsaid_bodies",
]

_MIB: Final = 1024 * 1024
_WAIT_S: Final = 30.0
_STRANGERS: Final = 200
_QUOTA_NAMES: Final = 1_000
_QUOTA_SUBSCRIPTIONS: Final = 10_000


async def idle_strangers(stage: Stage) -> Told:
    """1,010 connections that never say CONNECT, and come back when disconnected."""
    return await crowd(stage, stage.stomp)


async def unsaid_bodies(stage: Stage) -> Told:
    """200 strangers that begin a frame with a large body, as far as they are let."""
    before_mib = memory_mib(stage.pids["b1"])
    lines = [await StompLine.dial(stage.stomp) for _ in range(_STRANGERS)]
    for line in lines:
        line.send_bytes(f"SEND\ncontent-length:{8 * _MIB}\n\n".encode() + bytes(60_000))
        await line.drain(2.0)
    after = grown(stage, before_mib, "200 frames begun")
    ended = sum([await line.ended(8.0) for line in lines])
    text = f"{ended} of {_STRANGERS} strangers were thrown out; {after.text}"
    return Told(text, has_succeeded=after.has_succeeded or ended < _STRANGERS)


async def flooded_heads(stage: Stage) -> Told:
    """Headers without end: their number, their length, and all of them together, by strangers and clients."""
    floods = (
        b"SEND\n" + b"x:1\n" * 2_000_000,
        b"SEND\nx:" + b"y" * 8_000_000,
        b"SEND\n" + (b"x:" + b"y" * 60_000 + b"\n") * 130,
        b"x" * 8_000_000,
        b"\n" * 8_000_000 + b"SEND\nno colon\n\n\0",
    )
    words: list[str] = []
    for flood in floods:
        for is_client in (False, True):
            line = await (StompLine.client(stage.stomp) if is_client else StompLine.dial(stage.stomp))
            for start in range(0, len(flood), 100_000):
                line.send_bytes(flood[start : start + 100_000])
                if not await line.drain(5.0):
                    break
            await line.ended()
            words.append(line.last_words())
            await line.close()
    still = words.count("still connected")
    return Told(f"{len(words)} floods, {len(words) - still} refused", has_succeeded=still > 0)


async def dribbled_frames(stage: Stage) -> Told:
    """20 clients whose frames of 8 MiB never end, some bytes at a time."""
    before_mib = memory_mib(stage.pids["b1"])
    lines = [await StompLine.client(stage.stomp) for _ in range(20)]
    for line in lines:
        line.send_bytes(f"SEND\ndestination:/topic/a\ncontent-length:{8 * _MIB}\n\n".encode())
    deadline_s = time.monotonic() + stage.seconds
    while time.monotonic() < deadline_s:
        for line in lines:
            line.send_bytes(bytes(100))
        await asyncio.sleep(0.1)
    return grown(stage, before_mib, f"{sum(each.is_over for each in lines)} of {len(lines)} were ended")


async def announced_bodies(stage: Stage) -> Told:
    """100 clients that send most of 8 MiB, and never the rest."""
    lines = []
    sent = 0
    for _ in range(100):
        with suppress(Rejected, OSError, TimeoutError):
            line = await StompLine.client(stage.stomp)
            lines.append(line)
            line.send_bytes(f"SEND\ndestination:/topic/a\ncontent-length:{8 * _MIB}\n\n".encode())
            for _ in range(80):
                line.send_bytes(bytes(100_000))
                if not await line.drain(5.0):
                    break
                sent += 100_000
    await asyncio.sleep(1.0)
    ended = sum(each.is_over for each in lines)
    return Told(f"{sent // 1_000_000:,} MB announced and begun, {ended} of {len(lines)} ended")


async def open_transactions(stage: Stage) -> Told:
    """Transactions that are never committed: too many, too large, and as many as are allowed on 50 connections."""
    many = await StompLine.client(stage.stomp)
    for number in range(1_000):
        many.say("BEGIN", transaction=str(number))
    await many.ended()
    large = await StompLine.client(stage.stomp)
    large.say("BEGIN", transaction="t")
    for _ in range(40):
        large.say("SEND", bytes(100_000), destination="/topic/a", transaction="t")
        await large.drain()
    await large.ended()
    before_mib = memory_mib(stage.pids["b1"])
    for _ in range(50):
        line = await StompLine.client(stage.stomp)
        for number in range(16):
            line.say("BEGIN", transaction=str(number))
            for _ in range(25):
                line.say("SEND", bytes(2_000), destination="/topic/a", transaction=str(number))
        line.say("SEND", destination="/topic/a", receipt="r")
        await line.hear("RECEIPT")
    grown_mib = memory_mib(stage.pids["b1"]) - before_mib
    is_over = many.is_over and large.is_over
    text = f"{many.last_words()}; {large.last_words()}; 50 connections with 0.8 MB each took {grown_mib:.0f} MiB"
    return Told(text, has_succeeded=not is_over or grown_mib > 120, figures={"grown_mib": grown_mib})


async def endless_subscriptions(stage: Stage) -> Told:
    """Subscriptions without end, on one connection and on several of one client."""
    granted, words = 0, ""
    for turn in range(3):
        line = await StompLine.client(stage.stomp)
        for number in range(_QUOTA_SUBSCRIPTIONS + 100):
            line.say("SUBSCRIBE", id=str(number), destination=f"/topic/{turn}.{number}", receipt="r")
            if number % 100 == 0 and not await line.drain():
                break
        await line.until(lambda line=line: line.counts["RECEIPT"] >= _QUOTA_SUBSCRIPTIONS, _WAIT_S)  # type: ignore[misc]
        granted += line.counts["RECEIPT"]
        words = line.last_words()
    return Told(f"{granted:,} granted; {words}", has_succeeded=granted > 3 * _QUOTA_SUBSCRIPTIONS)


async def endless_names(stage: Stage) -> Told:
    """Queues, made by SUBSCRIBE and by SEND, and durable subscriptions, each with a name of its own."""
    before_mib = memory_mib(stage.pids["b1"])
    most, words = 0, []
    for kind in ("subscribe", "send", "durable"):
        line = await StompLine.client(stage.stomp, "feed", passcode="feed-token")
        for number in range(3_000):
            if kind == "send":
                line.say("SEND", b"job", destination=f"/queue/{kind}-{number}", receipt="r")
            elif kind == "durable":
                line.say("SUBSCRIBE", id=str(number), destination="/topic/a", durable="true", receipt="r")
            else:
                line.say("SUBSCRIBE", id=str(number), destination=f"/queue/{number}", receipt="r")
            if number % 50 == 0 and not await line.drain():
                break
        await line.ended(_WAIT_S)
        if kind != "send":
            # Who may use any queue may make as many as a pubend has room for: as documented, nobody owns them.
            most = max(most, line.counts["RECEIPT"])
        words.append(f"{line.counts['RECEIPT']:,} by {kind}: {line.last_words()[:80]}")
        await line.close()
    told = grown(stage, before_mib, "; ".join(words))
    return Told(told.text, has_succeeded=told.has_succeeded or most > _QUOTA_NAMES)


async def unread_messages(stage: Stage) -> Told:
    """Subscribers that never read, of a topic, a queue and a pubend, while 60 MB are sent to them."""
    deaf = []
    for destination in ("/topic/deaf", "/queue/deaf", "/pubend/b1.a"):
        line = await StompLine.client(stage.stomp, heart_beat="0,500")
        line.say("SUBSCRIBE", id="1", destination=destination, receipt="r")
        await line.hear("RECEIPT")
        line.turn_deaf()
        deaf.append(line)
    sender = await StompLine.client(stage.stomp, "feed")
    before_mib = memory_mib(stage.pids["b1"])
    for number in range(600):
        destination = ("/topic/deaf", "/queue/deaf")[number % 2]
        sender.say("SEND", bytes(100_000), destination=destination, receipt=str(number))
        if not await sender.drain():
            break
        if not await sender.until(lambda number=number: sender.counts["RECEIPT"] > number - 20, _WAIT_S):  # type: ignore[misc]
            break
    text = f"{sender.counts['RECEIPT'] // 10} MB sent, {sender.last_words()}; the deaf: {deaf[0].last_words()}"
    return grown(stage, before_mib, text, allowed_mib=150.0)


async def unacknowledged_messages(stage: Stage) -> Told:
    """Consumers that read everything and acknowledge nothing, of a topic, a queue and a durable subscription."""
    line = await StompLine.client(stage.stomp)
    line.say("SUBSCRIBE", id="topic", destination="/topic/x", ack="client-individual")
    line.say("SUBSCRIBE", id="queue", destination="/queue/x", ack="client", prefetch_count="999999999")
    line.say("SUBSCRIBE", id="name", destination="/topic/x", ack="client", durable="true", receipt="r")
    await line.hear("RECEIPT")
    sender = await StompLine.client(stage.stomp, "feed")
    before_mib = memory_mib(stage.pids["b1"])
    for number in range(30_000):
        sender.say("SEND", bytes(100), destination=("/topic/x", "/queue/x")[number % 2], receipt=str(number))
        if number % 100 == 0:
            await sender.drain()
            await sender.until(lambda number=number: sender.counts["RECEIPT"] > number - 500, _WAIT_S)  # type: ignore[misc]
    await sender.until(lambda: sender.counts["RECEIPT"] >= 30_000)
    text = f"{line.counts['MESSAGE']:,} messages of {sender.counts['RECEIPT']:,}"
    return grown(stage, before_mib, text, allowed_mib=120.0)


async def unread_receipts(stage: Stage) -> Told:
    """Receipts that are asked for as fast as they come, and never read: for what is done at once, and for SENDs."""
    before_mib = memory_mib(stage.pids["b1"])
    words, asked = [], 0
    for said in (
        frame("BEGIN", transaction="t", receipt="r" * 200) + frame("ABORT", transaction="t", receipt="r" * 200),
        frame("SEND", destination="/topic/a", receipt="r" * 2_000),
    ):
        line = await StompLine.client(stage.stomp)
        line.turn_deaf()
        deadline_s = time.monotonic() + stage.seconds
        while time.monotonic() < deadline_s and asked * len(said) < 400 * _MIB:
            line.send_bytes(said * 200)
            asked += 200
            if not await line.drain(1.0):
                break
        words.append(f"{line.last_words()} at {memory_mib(stage.pids['b1']) - before_mib:.0f} MiB")
    return grown(stage, before_mib, f"{asked:,} asked for, {' and '.join(words)}")


async def begun_subscriptions(stage: Stage) -> Told:
    """Subscriptions that begin and end, and names that are forgotten, by a client that never reads."""
    line = await StompLine.client(stage.stomp)
    line.turn_deaf()
    before_mib = memory_mib(stage.pids["b1"])
    count, deadline_s = 0, time.monotonic() + stage.seconds
    while time.monotonic() < deadline_s:
        for _ in range(50):
            line.say("SUBSCRIBE", id="1", destination="/topic/a", selector=f"n = {count}", receipt="r" * 200)
            line.say("UNSUBSCRIBE", id="1", receipt="r" * 200)
            count += 1
        if not await line.drain(1.0):
            break
    return grown(stage, before_mib, f"{count:,} begun and ended, {line.last_words()}")


async def bombs(stage: Stage) -> Told:
    """Selectors that are costly to read, to keep or to match, on messages that are costly to match."""
    words = []
    texts = (
        " OR ".join(f"n = {number}" for number in range(4_000)),
        " AND ".join(f"(a{number} = 1 OR b{number} = 2)" for number in range(300)),
        "(" * 5_000 + "n = 1" + ")" * 5_000,
        "NOT " * 10_000 + "n = 1",
        "x LIKE '" + "%a" * 5_000 + "%b'",
        "n IN (" + ",".join(f"'{number}'" for number in range(8_000)) + ")",
        "n = " + "9" * 60_000,
    )
    for text in texts:
        line = await StompLine.client(stage.stomp)
        for number in range(30):
            line.say("SUBSCRIBE", id=str(number), destination="/topic/bomb", selector=text, receipt="r")
        for _ in range(20):
            line.say("SEND", destination="/topic/bomb", x="a" * 20_000, n="1", receipt="s")
        await line.until(lambda line=line: line.counts["RECEIPT"] >= 50, _WAIT_S)  # type: ignore[misc]
        words.append(line.last_words()[:60])
        await line.close()
    return Told("; ".join(words))
