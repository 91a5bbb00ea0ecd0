"""Attacks as clients whose every step is allowed, but which together make a broker hoard or wait for too much."""

from __future__ import annotations

import asyncio

from bench.hostile.arena import memory_mib
from bench.hostile.stage import Stage, Told
from bench.hostile.wire import Peer, raw_publish
from penstock.protocol import frames as f
from penstock.protocol.codec import encode_frame

__all__ = [
    "dribbled_frame",
    "empty_messages",
    "grown",
    "invented_positions",
    "left_positions",
    "long_selectors",
    "past_selectors",
    "silent_subscribers",
    "slow_line",
    "system_names",
    "unread_status",
]

_MIB = 1024 * 1024
_GROWN_MIB_MAX = 40.0
_WAIT_S = 30.0


async def slow_line(stage: Stage) -> Told:
    """One message of 8 MiB at 2 MB/s, which takes longer than a connection may be silent."""
    peer = await Peer.client(stage.port)
    peer.fall_silent()
    data = encode_frame(raw_publish(1, [peer.body({"x": 1}, bytes(8 * _MIB - 100))]))
    for start in range(0, len(data), 100_000):
        peer.send_bytes(data[start : start + 100_000])
        await asyncio.sleep(0.05)
    peer.keep_alive()
    peer.send(raw_publish(2, []))
    taken = await peer.hear(f.PublishAck, _WAIT_S)
    return Told("taken over" if taken else peer.last_words(), has_succeeded=taken is None)


async def dribbled_frame(stage: Stage) -> Told:
    """A frame of 8 MiB that never ends, some bytes a second."""
    peer = await Peer.client(stage.port)
    peer.fall_silent()
    data = encode_frame(raw_publish(1, [peer.body({"x": 1}, bytes(8 * _MIB))]))
    for turn in range(100):
        peer.send_bytes(data[turn * 100 : turn * 100 + 100])
        if await peer.ended(0.1):
            break
    return Told(peer.last_words(), has_succeeded=not peer.is_over)


async def silent_subscribers(stage: Stage) -> Told:
    """Three subscribers that never read, each below its own bound, so that publishers wait for them."""
    for _ in range(3):
        deaf = await Peer.client(stage.port)
        deaf.send(f.Subscribe(1, "x = 1"))
        await deaf.hear(f.Subscribed)
        deaf.turn_deaf()
    peer = await Peer.client(stage.port, "feed")
    number = 1

    def is_held() -> bool:
        return any(each.reason for each in peer.all(f.HeldBack)[-1:])

    def acknowledged() -> int:
        return max((each.sequence for each in peer.all(f.PublishAck)), default=0)

    for _ in range(2_000):
        if peer.is_over or is_held():
            break
        peer.send(raw_publish(number, [peer.body({"x": 1}, bytes(100_000)) for _ in range(10)]))
        number += 10
        peer.send(raw_publish(number, []))
        await peer.until(lambda last=number - 1: acknowledged() >= last or is_held())  # type: ignore[misc]
    was_held = is_held()
    await peer.until(lambda: not is_held(), _WAIT_S)
    how = "publishers still wait" if is_held() else "publishers had to wait" if was_held else "publishers never waited"
    return Told(f"{how}, {number // 10:,} MB published, {peer.last_words()}", has_succeeded=is_held() or peer.is_over)


async def unread_status(stage: Stage) -> Told:
    """A status of 49 KB, requested again and again and never read."""
    peer = await Peer.client(stage.port)
    peer.send(*(f.Subscribe(number, "never = 1", durable=f"{number}".ljust(200, "d")) for number in range(100)))
    await peer.until(lambda: peer.counts["Subscribed"] >= 100, _WAIT_S)
    peer.turn_deaf()
    before_mib = memory_mib(stage.pids["b1"])
    asked = 0
    while asked < 20_000:
        peer.send(*(f.StatusRequest(number) for number in range(200)))
        asked += 200
        if not await peer.drain():
            break
    await asyncio.sleep(3.0)
    return grown(stage, before_mib, f"{asked:,} requests")


async def empty_messages(stage: Stage) -> Told:
    """Empty messages, which cost no credit, behind one that was refused, by a client that never goes back."""
    peer = await Peer.client(stage.port)
    before_mib = memory_mib(stage.pids["b1"])
    peer.send(raw_publish(1, [b"\xff" * 16 + peer.body({"x": 1})[16:]]))
    await peer.hear(f.Refused)
    for first in range(2, 50_002, 1_000):
        peer.send(*(raw_publish(number, [b""]) for number in range(first, first + 1_000)))
        if not await peer.drain():
            break
    # The broker has read all of it once it answers.
    peer.send(f.StatusRequest(1))
    await peer.hear(f.StatusReply)
    return grown(stage, before_mib, "50,000 empty messages sent")


async def invented_positions(stage: Stage) -> Told:
    """Subscriptions that resume at 5,000 pubends that never existed, and end, beside one that stays."""
    peer = await Peer.client(stage.port)
    peer.send(f.Subscribe(0, "never = 1"))
    await peer.hear(f.Subscribed, number=0)
    before_mib = memory_mib(stage.pids["b1"])
    for number in range(1, 61):
        peer.send(f.Subscribe(number, "never = 1", _invented(number, 5_000), resumes=True), f.Unsubscribe(number))
        await peer.drain()
    await peer.until(lambda: peer.counts["Unsubscribed"] + peer.counts["Refused"] >= 60, _WAIT_S)
    return grown(stage, before_mib, f"{peer.counts['Unsubscribed']} begun and ended")


async def left_positions(stage: Stage) -> Told:
    """Subscriptions at 9,999 pubends that never existed, by clients of one name that come and go."""
    before_mib = memory_mib(stage.pids["b1"])
    for number in range(40):
        peer = await Peer.client(stage.port)
        peer.send(f.Subscribe(number, "never = 1", _invented(number, 9_999), resumes=True), f.StatusRequest(1))
        await peer.hear(f.StatusReply)
        await peer.close()
    return grown(stage, before_mib, "40 visits")


async def long_selectors(stage: Stage) -> Told:
    """400 subscriptions of 15,500 characters, each of which takes a third of a megabyte."""
    peer = await Peer.client(stage.port)
    for number in range(400):
        terms = [f"a{number % 7} = {number * 3_000 + term}" for term in range(1_050)]
        peer.send(f.Subscribe(number, " OR ".join(terms)[:15_500].rpartition(" OR ")[0]))
        await peer.drain(_WAIT_S)
    await peer.until(lambda: peer.counts["Subscribed"] + peer.counts["Refused"] >= 400, 2 * _WAIT_S)
    granted = len({each.number for each in peer.all(f.Subscribed)})
    return Told(f"{granted} granted", has_succeeded=granted * 15_500 > 4.2 * _MIB, figures={"granted": granted})


async def past_selectors(stage: Stage) -> Told:
    """Subscriptions of 64 KB that begin and end."""
    peer = await Peer.client(stage.port)
    before_mib = memory_mib(stage.pids["b1"])
    for number in range(400):
        peer.send(f.Subscribe(number, f"x = '{number}" + "\U0001f600" * 16_000 + "'"), f.Unsubscribe(number))
        await peer.until(lambda number=number: peer.counts["Unsubscribed"] > number - 20, _WAIT_S)  # type: ignore[misc]
    await peer.close()
    await asyncio.sleep(1.0)
    return grown(stage, before_mib, "400 begun and ended")


async def system_names(stage: Stage) -> Told:
    """A subscription to what the system says of other clients, by one whose rule does not let it see their names."""
    peer = await Peer.client(stage.port, "feed", credential="feed-token")
    peer.send(f.Subscribe(1, "$class = 'AJIL' OR $class = 'PIE' OR $class = 'BALANCING'"))
    await peer.until(lambda: bool(peer.all(f.Subscribed) or peer.all(f.Refused)))
    refused = peer.all(f.Refused)
    return Told(refused[-1].reason if refused else peer.last_words(), has_succeeded=not refused)


def _invented(turn: int, count: int) -> tuple[tuple[str, int], ...]:
    return tuple((f"{turn}-{number}-".ljust(200, "x"), 5) for number in range(count))


def grown(stage: Stage, before_mib: float, what: str, allowed_mib: float = _GROWN_MIB_MAX) -> Told:
    """How much more memory the broker has now; the attack has succeeded if that is more than is allowed."""
    grown_mib = memory_mib(stage.pids["b1"]) - before_mib
    return Told(
        f"{what}, the broker grew by {grown_mib:.0f} MiB",
        has_succeeded=grown_mib > allowed_mib,
        figures={"grown_mib": grown_mib},
    )
