"""Attacks as clients that were let in: numbers, sizes, credit, work, bodies and other clients' names."""

from __future__ import annotations

import asyncio
import time

from bench.hostile.stage import Stage, Told
from bench.hostile.wire import Peer, raw_publish
from penstock.model.message_id import MessageIdSource
from penstock.protocol import frames as f

__all__ = [
    "costly_patterns",
    "costly_subscriptions",
    "false_content_type",
    "forged_identifier",
    "ignored_credit",
    "ignored_hold",
    "large_body",
    "large_number",
    "large_payload",
    "long_name",
    "many_names",
    "many_positions",
    "many_subscriptions",
    "stolen_name",
    "unreadable_identifier",
]

_MIB = 1024 * 1024
_PUBLISHER = b"p" * 16
_ORDERS = "order_number >= 0"
_FLOOD_BYTES = 400_000_000
_HELD_BYTES = 300_000_000
_FLOOD_BODY_BYTES = 60_000


async def large_number(stage: Stage) -> Told:
    """A message numbered beyond what a store can keep."""
    peer = await Peer.client(stage.port, publisher=_PUBLISHER)
    peer.send(raw_publish(2**63, [peer.body({"x": 1})]), raw_publish(2**63 + 1, []))
    return await _answer(peer, "number 2^63")


async def large_body(stage: Stage) -> Told:
    """A body that fits a publish frame, but not the knowledge message that has to forward it."""
    peer = await Peer.client(stage.port)
    # Without a pubend name, which would leave less room in the frame.
    peer.send(raw_publish(1, [_sized(peer, 10_485_740)], ""), raw_publish(2, []))
    return await _answer(peer, "10,485,740 bytes")


async def large_payload(stage: Stage) -> Told:
    """A payload of 9 MiB, where 8 are allowed."""
    peer = await Peer.client(stage.port)
    peer.send(raw_publish(1, [_sized(peer, 9 * _MIB)]), raw_publish(2, []))
    return await _answer(peer, "9 MiB")


async def false_content_type(stage: Stage) -> Told:
    """A content type longer than the body that contains it, in a message that honest subscribers read."""
    peer = await Peer.client(stage.port)
    # The last byte of a body without payload and content type is the length of the latter.
    peer.send(raw_publish(1, [peer.body({"honest": True})[:-1] + b"\xff"]), raw_publish(2, []))
    return await _answer(peer, "a content type beyond its body")


async def unreadable_identifier(stage: Stage) -> Told:
    """An identifier whose time is beyond every calendar."""
    peer = await Peer.client(stage.port)
    peer.send(raw_publish(1, [b"\xff" * 16 + peer.body({"x": 1})[16:]]), raw_publish(2, []))
    return await _answer(peer, "an identifier of all ones")


async def forged_identifier(stage: Stage) -> Told:
    """A message with the identifier of another publisher at another broker."""
    peer = await Peer.client(stage.port)
    victim = MessageIdSource(publisher=12_345, broker=99).next(int(time.time() * 1_000)).to_bytes()
    peer.send(raw_publish(1, [victim + peer.body({"x": 1})[16:]]), raw_publish(2, []))
    return await _answer(peer, "another's identifier")


async def ignored_credit(stage: Stage) -> Told:
    """400 MB without waiting for any credit."""
    peer = await Peer.client(stage.port, publisher=_PUBLISHER)
    sent = await _flood(peer, _FLOOD_BYTES)
    taken = await _acknowledged(peer) * _FLOOD_BODY_BYTES
    return Told(
        f"sent {sent / 1e6:.0f} MB, {taken / 1e6:.0f} acknowledged, {peer.last_words()}",
        figures={"sent_mb": sent / 1e6, "acknowledged_mb": taken / 1e6},
    )


async def ignored_hold(stage: Stage) -> Told:
    """300 MB without credit while the log is full, since a durable subscriber is away: publishers should wait."""
    absent = await Peer.client(stage.port, "absent")
    absent.send(f.Subscribe(1, "x > 0", durable="absent"))
    await absent.hear(f.Subscribed, number=1)
    await absent.close()
    peer = await Peer.client(stage.port, publisher=_PUBLISHER)
    sent = await _flood(peer, _HELD_BYTES)
    taken = await _acknowledged(peer) * _FLOOD_BODY_BYTES
    return Told(
        f"sent {sent / 1e6:.0f} MB, {taken / 1e6:.0f} acknowledged beyond a limit of 1, {peer.last_words()}",
        has_succeeded=taken > 20e6,
        figures={"sent_mb": sent / 1e6, "acknowledged_mb": taken / 1e6},
    )


async def costly_subscriptions(stage: Stage) -> Told:
    """600 selectors of 3,000 characters at once, none of which covers another."""
    peer = await Peer.client(stage.port)
    selectors = [" OR ".join(f"a{(n * 7 + k) % 997} > {n} AND b{k} < {n}" for k in range(120)) for n in range(600)]
    started_s = time.monotonic()
    peer.send(*(f.Subscribe(number, text[:3_000].rpartition(" OR ")[0]) for number, text in enumerate(selectors)))
    return await _granted(peer, len(selectors), started_s)


async def costly_patterns(stage: Stage) -> Told:
    """200 LIKE patterns of 14,000 characters, and a message with a text of 65,536 that nearly fits each of them."""
    peer = await Peer.client(stage.port)
    for number in range(200):
        pattern = f"%{'a' * 6_000}_{'a' * 7_900}b{number}%"
        peer.send(f.Subscribe(number, f"text LIKE '{pattern}'"))
    started_s = time.monotonic()
    told = await _granted(peer, 200, started_s)
    for sequence in range(1, 4):
        peer.send(raw_publish(sequence, [peer.body({"text": "a" * 65_536})]))
    peer.send(raw_publish(4, []))
    await peer.hear(f.PublishAck, 30.0)
    return Told(f"{told.text}; 3 messages matched", figures=told.figures)


async def many_subscriptions(stage: Stage) -> Told:
    """20,000 subscriptions of one client."""
    peer = await Peer.client(stage.port)
    started_s = time.monotonic()
    for first in range(0, 20_000, 500):
        peer.send(*(f.Subscribe(n, f"name{n} = 'value {n}' AND other{n} > {n}") for n in range(first, first + 500)))
        if not await peer.drain():
            break
    return await _granted(peer, 20_000, started_s, seconds=40.0, usual=10_000)


async def many_names(stage: Stage) -> Told:
    """6,000 durable names of one client, kept for good."""
    peer = await Peer.client(stage.port, "feed", credential="feed-token")
    started_s = time.monotonic()
    for first in range(0, 6_000, 500):
        peer.send(*(f.Subscribe(n, "x = 1", durable=f"name-{n}") for n in range(first, first + 500)))
        if not await peer.drain():
            break
    return await _granted(peer, 6_000, started_s, seconds=40.0, usual=1_000)


async def many_positions(stage: Stage) -> Told:
    """10 subscriptions, each of which resumes at 10,000 pubends that never existed."""
    peer = await Peer.client(stage.port)
    started_s = time.monotonic()
    for number in range(10):
        invented = tuple((f"invented-{number}-{each}", 1) for each in range(10_000))
        peer.send(f.Subscribe(number, "x = 1", positions=invented, resumes=True))
    return await _granted(peer, 10, started_s, usual=1)


async def long_name(stage: Stage) -> Told:
    """A client with a name of 60,000 characters, which everybody would see in the status."""
    peer = await Peer.client(stage.port, "n" * 60_000)
    return Told("a name of 60,000 characters was let in", has_succeeded=not peer.is_over)


async def stolen_name(stage: Stage) -> Told:
    """A client with few rights takes another client's durable name, and acknowledges everything for it."""
    victim = await Peer.client(stage.port, "victim", credential="victim-token")
    victim.send(f.Subscribe(1, _ORDERS, durable="orders"))
    await victim.hear(f.Subscribed, number=1)
    await victim.close()
    publisher = await Peer.client(stage.port, "feed", credential="feed-token")
    publisher.send(raw_publish(1, [publisher.body({"order_number": n}) for n in range(100)]), raw_publish(101, []))
    await publisher.until(lambda: any(each.sequence >= 100 for each in publisher.all(f.PublishAck)))
    thief = await Peer.client(stage.port, "weak", credential="weak-token")
    thief.send(f.StatusRequest(1))
    reply = await thief.hear(f.StatusReply)
    is_listed = reply is not None and b"orders" in reply.status
    thief.send(f.Subscribe(1, "TRUE", durable="orders"))
    taken = await thief.hear(f.Subscribed, 3.0, number=1)
    if taken is not None:
        names = [number for each in thief.all(f.PubendNames) for number, name in each.names if name == "b1.a"]
        await asyncio.sleep(1.0)
        last = int(time.time() * 1_000) << 16
        thief.send(f.Acknowledge(tuple((number, last) for number in names), number=1))
        await asyncio.sleep(1.5)
    await thief.close()
    back = await Peer.client(stage.port, "victim", credential="victim-token")
    back.send(f.Subscribe(1, _ORDERS, durable="orders"))
    await back.until(lambda: back.counts["Deliver"] >= 100, 5.0)
    missing = 100 - back.counts["Deliver"]
    how = "taken over" if taken is not None else f"refused: {_refusal(thief)}"
    return Told(
        f"{how}; {missing} of the victim's 100 messages destroyed{'; its name is listed' if is_listed else ''}",
        has_succeeded=bool(missing or is_listed),
        figures={"destroyed": missing},
    )


# What they have in common.


def _sized(peer: Peer, size: int) -> bytes:
    # Honest subscribers match it, so that it has to travel.
    made = peer.body({"honest": True})
    return made + bytes(size - len(made))


async def _answer(peer: Peer, what: str) -> Told:
    """What became of a batch that should be refused; the peer has asked for an acknowledgement."""
    await peer.until(lambda: bool(peer.all(f.PublishAck) or peer.all(f.Refused)))
    if refused := peer.all(f.Refused):
        return Told(f"refused: {refused[0].reason}")
    if peer.all(f.PublishAck):
        return Told(f"{what} acknowledged", has_succeeded=True)
    return Told(peer.last_words())


async def _flood(peer: Peer, total_bytes: int) -> int:
    """Send this much in small batches; return how much went out."""
    sent, number = 0, 1
    while sent < total_bytes:
        batch = [peer.body({"x": 1}, bytes(_FLOOD_BODY_BYTES - 100)) for _ in range(16)]
        peer.send(raw_publish(number, batch))
        if not await peer.drain(5.0):
            break
        number += len(batch)
        sent += _FLOOD_BODY_BYTES * len(batch)
    peer.send(raw_publish(number, []))
    return sent


async def _acknowledged(peer: Peer, seconds: float = 3.0) -> int:
    """How many messages are acknowledged once no more acknowledgements arrive."""
    last = -1
    while not peer.is_over:
        now = max((each.sequence for each in peer.all(f.PublishAck)), default=0)
        if now == last:
            break
        last = now
        await asyncio.sleep(seconds)
    return max((each.sequence for each in peer.all(f.PublishAck)), default=0)


async def _granted(peer: Peer, count: int, started_s: float, *, seconds: float = 30.0, usual: int = -1) -> Told:
    """How many subscriptions were granted; with ``usual``, the attacker succeeds if more were."""

    def answered() -> int:
        return peer.counts["Subscribed"] + peer.counts["Refused"]

    await peer.until(lambda: answered() >= count, seconds)
    took_s = time.monotonic() - started_s
    granted = len({each.number for each in peer.all(f.Subscribed)})
    text = f"{granted:,} of {count:,} granted in {took_s:.1f} s"
    if granted < count:
        text += f", {_refusal(peer)}"
    return Told(text, has_succeeded=0 <= usual < granted, figures={"granted": granted, "took_s": took_s})


def _refusal(peer: Peer) -> str:
    refused = peer.all(f.Refused)
    return refused[-1].reason if refused else peer.last_words()
