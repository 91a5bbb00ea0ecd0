"""Attacks as an authenticated neighbour that speaks for other brokers, and for pubends whose path it is not on."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

from bench.hostile.stage import Stage, Told
from bench.hostile.wire import Peer, Rejected, body
from penstock.protocol import frames as f

__all__ = [
    "endless_filter",
    "false_silence",
    "invented_hosts",
    "invented_pubends",
    "stolen_subscription",
    "unreadable_answers",
]

_LINK_SECRET = "link-secret-link-secret-link-secret"  # noqa: S105 - of an arena that lives for seconds
_VICTIM = {"name": "victim", "credential": "victim-token"}
_SOME = 20


async def stolen_subscription(stage: Stage) -> Told:
    """Empties, forgets and blocks another client's durable subscription, with one frame each."""
    lost = list[str]()
    ways: dict[str, f.ControlFrame] = {
        "moved": f.Positions("b1.a", (), (("moved", 2**62, 2**62, "b2"),)),
        "forgotten": f.StreamForget("b1.a", "b2", 5, "forgotten", "", shares=True),
        "blocked": f.StreamOpen("b1.a", "b2", 5, 0, "earliest", "blocked", 2**62, shares=True),
    }
    for way, frame in ways.items():
        victim = await Peer.client(stage.port, **_VICTIM)
        victim.send(f.Subscribe(1, f"way = '{way}'", durable=way))
        await victim.hear(f.Subscribed, 10.0)
        await victim.close()
        feed = await Peer.client(stage.port, "feed", credential="feed-token")
        feed.send(f.Publish(1, [feed.body({"way": way}) for _ in range(_SOME)]), f.Publish(1 + _SOME, []))
        await feed.hear(f.PublishAck, 10.0)
        await feed.close()
        rogue = await _neighbour(stage.port, "b2", "b1")
        rogue.send(frame)
        await rogue.ended(1.0)
        await rogue.close()
        victim = await Peer.client(stage.port, **_VICTIM)
        victim.send(f.Subscribe(1, f"way = '{way}'", durable=way))
        await victim.until(partial(_has_all_or_nothing, victim), 10.0)
        if victim.counts["Deliver"] < _SOME:
            lost.append(way)
        await victim.close()
    return Told(f"durable subscriptions {' and '.join(lost) or 'are whole'}", has_succeeded=bool(lost))


async def false_silence(stage: Stage) -> Told:
    """Silence up to the last tick, from a broker off the path: does the next broker go deaf to the pubend?"""
    subscriber = await Peer.client(stage.ports["b2"], "subscriber")
    subscriber.send(f.Subscribe(1, "way = 'silence'"))
    await subscriber.hear(f.Subscribed, 10.0)
    rogue = await _neighbour(stage.ports["b2"], "b3", "b2")
    await rogue.until(lambda: any(each.host == "b2" for each in rogue.all(f.FilterUpdate)), 5.0)
    known = max((each.incarnation, each.version) for each in rogue.all(f.FilterUpdate) if each.host == "b2")
    silence = f.KnowledgeMessage("b1.a", 0, 2**62 - 5, [], [], versions=(("b2", *known),), is_whole=True)
    rogue.send(silence)
    await rogue.ended(1.0)
    await rogue.close()
    feed = await Peer.client(stage.port, "feed")
    feed.send(f.Publish(1, [feed.body({"way": "silence"}) for _ in range(_SOME)]))
    await subscriber.until(lambda: subscriber.counts["Deliver"] >= _SOME, 10.0)
    got = subscriber.counts["Deliver"]
    await subscriber.close()
    await feed.close()
    return Told(f"{got} of {_SOME} messages got through", has_succeeded=got < _SOME)


async def invented_hosts(stage: Stage) -> Told:
    """Positions of tens of thousands of hosts: does the next broker forward what the one behind it refuses?"""
    before = _links_lost(stage)
    rogue = await _neighbour(stage.ports["b2"], "b3", "b2")
    for part in range(3):
        made_up = tuple((f"h{part}-{number}", 5, True) for number in range(10_000))
        rogue.send(f.Positions("b1.a", made_up))
    await rogue.drain(20)
    await rogue.ended(2.5)
    await rogue.close()
    return _told_of_links(stage, before)


async def unreadable_answers(stage: Stage) -> Told:
    """Trace answers that are not UTF-8, forwarded by an honest broker: does that broker lose its link?"""
    before = _links_lost(stage)
    rogue = await _neighbour(stage.ports["b2"], "b3", "b2")
    await rogue.ended(1.0)
    for answer in (b"\x81\xa6broker\xa1\xff", b"\x91\xa1\xff", b"\xc1"):
        rogue.send(f.TraceAnswer("b1", 5, answer))
    await rogue.ended(1.5)
    await rogue.close()
    return _told_of_links(stage, before)


async def invented_pubends(stage: Stage) -> Told:
    """Ever more pubends, with a message on each: can anybody connect afterwards?"""
    rogue = await _neighbour(stage.port, "b2", "b1")
    message, made_up = body({"x": 1}), 0
    for sequence in range(2, 125):
        names = tuple(f"p{sequence}-{number}" for number in range(200))
        rogue.send(f.LinkState("b2", int(time.time() * 1_000), sequence, ("b1",), names, names, 77))
        rogue.send(*(f.Forward(name, [5], [message]) for name in names))
        made_up += len(names)
        if not await rogue.drain(60):
            break
        await asyncio.sleep(0.01)
    await rogue.ended(1.0)
    await rogue.close()
    try:
        client = await Peer.client(stage.port, "new")
        client.send(f.Subscribe(1, "x = 2"))
        answer: object = await client.hear(f.Subscribed, 15.0)
        await client.close()
    except Rejected:
        answer = None
    return Told(
        f"{made_up:,} pubends made up, a new client is {'served' if answer else 'not served'}",
        has_succeeded=answer is None,
    )


async def endless_filter(stage: Stage) -> Told:
    """Parts of an endless filter, first with a million short selectors each, then with as many as are allowed."""
    ends = list[str]()
    for texts in (("x = 1",) * 1_000_000, ("x = 1",) * 10_000):
        rogue = await _neighbour(stage.port, "b2", "b1")
        began_s, sequence = time.monotonic(), 1
        while time.monotonic() - began_s < stage.seconds and not rogue.is_over:
            rogue.send(f.FilterUpdate(sequence, "b2", 5, -5, -1, texts))
            sequence += 1
            if not await rogue.drain(30):
                break
        ends.append(f"{sequence - 1} parts of {len(texts):,}: {rogue.last_words()}")
        await rogue.close()
    return Told("; ".join(ends))


async def _neighbour(port: int, name: str, to: str) -> Peer:
    """A link as a broker that others believe in."""
    peer = await Peer.link(port, _LINK_SECRET, name)
    peer.keep_alive()
    peer.send(f.LinkState(name, int(time.time() * 1_000), 1, (to,), (), (), 77))
    await asyncio.sleep(0.3)
    return peer


def _has_all_or_nothing(victim: Peer) -> bool:
    return victim.counts["Deliver"] >= _SOME or victim.counts["Refused"] > 0


def _links_lost(stage: Stage) -> int:
    return Path(stage.logs["b1"]).read_text(encoding="utf-8", errors="replace").count(" link-down ")


def _told_of_links(stage: Stage, before: int) -> Told:
    lost = _links_lost(stage) - before
    return Told(f"{lost} links between honest brokers lost", has_succeeded=lost > 0)
