"""Attacks as false brokers, as local users, and as clients whose names an operator will read."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

from bench.hostile.arena import OVERLAY
from bench.hostile.certificates import NAMELESS
from bench.hostile.stage import Stage, Told
from bench.hostile.wire import Peer, body
from penstock.model.errors import PeerError
from penstock.protocol import frames as f
from penstock.protocol.codec import FrameReader
from penstock.system.seal import Seal

__all__ = [
    "escaped_name",
    "false_broker",
    "nameless_broker",
    "open_files",
    "replayed_datagrams",
    "rogue_knowledge",
    "told_link_token",
    "unwarned_file",
]

_LINK_SECRET = "link-secret-link-secret-link-secret"  # noqa: S105 - of an arena that lives for seconds
_WARNING_WORDS = ("readable", "permission", "mode", "chmod")


async def nameless_broker(stage: Stage) -> Told:
    """Claims to be a broker with a certificate of the authority that has no common name."""
    peer = await Peer.dial(stage.port, tls=stage.context(NAMELESS))
    return await _as_broker(peer)


async def false_broker(stage: Stage) -> Told:
    """Claims to be the other broker, without any proof."""
    return await _as_broker(await Peer.dial(stage.port))


async def told_link_token(stage: Stage) -> Told:
    """Listens at the address of a neighbour, and waits for the broker to connect."""
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for frame in FrameReader().feed(await reader.read(65_536)):
            if isinstance(frame, f.Hello) and not told.done():
                told.set_result(repr(frame))
        writer.close()

    async with await asyncio.start_server(on_call, "127.0.0.1", stage.ports["b2"]):
        try:
            async with asyncio.timeout(10.0):
                said = await told
        except TimeoutError:
            return Told("was not told anything")
    is_told = _LINK_SECRET in said
    return Told(f"was told {'the link token' if is_told else 'no secret'}", has_succeeded=is_told)


async def rogue_knowledge(stage: Stage) -> Told:
    """A neighbour with the right token that lies about streams, filters, links and ticks."""
    words = list[str]()
    rogue: tuple[f.Frame, ...] = (
        f.KnowledgeMessage("b1.a", 0, 2**62, [2**61], [body({"honest": True})], kind=f.KnowledgeKind(0)),
        f.KnowledgeMessage("b1.a", 0, 2**62, [1], [b"not a body"], kind=f.KnowledgeKind(0)),
        f.Forward("b1.a", [2**63], [body({"honest": True})[:-1] + b"\xff"]),
        f.LinkState("b1", 2**62, 2**62, ()),
        f.LinkState("b2", 2**62, 1, tuple(f"invented-{n}" for n in range(100_000))),
        f.FilterUpdate(1, "b1", 2**62, 1, -1, ("TRUE",)),
        f.FilterUpdate(1, "b2", 1, 1, -1, tuple(f"x = {n}" for n in range(50_000))),
        f.Nack("b1.a", "b2", 1, 1, tuple((n, n) for n in range(0, 100_000, 2))),
        f.Positions("b1.a", tuple((f"invented-{n}", 1, True) for n in range(50_000))),
        f.Positions("b1.a", (), (("orders", 2**62, 2**62, "b2"),)),
        f.Carry("b1.a", "b1", b"me", "feed", (2**62, 0, 1), [body({"way": "home"})], is_first=True),
        f.Carry("b1.a", "invented", b"me", "feed", (1, 0, 1), [body({"way": "invented"})], is_first=True),
        f.Carry("b1.a", "b2", b"me", "feed", (1, 0, 1), [b"not a message at all"], is_first=True),
        f.Carry("b1.a", "b2", b"me", "feed", (1, 0, 2**62), [body({"way": "last"})] * 3, is_first=True),
        f.Carried("b1.a", "b1", b"me", 2**62, 2**62, is_broken=True),
        f.MechanismMessage("ajil", b"\xc1" * 100_000),
        f.MechanismMessage("balancing", b"\x00" * 100),
        f.MechanismMessage("m" * 100_000, b""),
    )
    for frames in (*((frame,) for frame in rogue), _large_filter()):
        peer = await Peer.link(stage.port, _LINK_SECRET)
        peer.send(*frames)
        await peer.ended(0.7)
        words.append(peer.last_words())
        await peer.close()
    ended = sum(each != "still connected" for each in words)
    return Told(f"{len(words)} falsehoods as a neighbour, {ended} cost the link")


def _large_filter() -> tuple[f.Frame, ...]:
    """A filter of 50,000 selectors, in parts of the allowed size."""
    parts = 50
    return tuple(
        f.FilterUpdate(
            part + 1,
            "b2",
            2,
            1 if part == parts - 1 else part + 1 - parts,
            -1,
            tuple(f"y = {part * 1_000 + n}" for n in range(1_000)),
        )
        for part in range(parts)
    )


async def escaped_name(stage: Stage) -> Told:
    """Terminal escapes in the names of a client and a subscription, which the operator's terminal would obey."""
    name = "evil\x1b]0;owned\x07\x1b[2J"
    peer = await Peer.client(stage.port, name)
    peer.send(f.Subscribe(1, "x = 1", durable=name))
    await peer.hear(f.Subscribed, 3.0, number=1)
    shown = b""
    file = str(Path(stage.folder) / "overlay.toml")
    for command in (("status", file), ("top", file, "--once")):
        program = [sys.executable, "-c", "from penstock.cli import main; main()", *command]
        done = await asyncio.to_thread(
            subprocess.run,
            program,
            capture_output=True,
            env={**os.environ, "COLUMNS": "200"},
            timeout=60,
            check=False,
        )
        shown += done.stdout + done.stderr
    log = Path(stage.logs["b1"]).read_bytes()
    found = [where for where, text in (("status", shown), ("log", log)) if b"\x1b]0;owned" in text]
    return Told(f"escapes reach {' and '.join(found) if found else 'nobody'}", has_succeeded=bool(found))


async def open_files(stage: Stage) -> Told:
    """What a local user can read of the store."""
    data = Path(stage.folder) / "data" / "b1"
    places = [data, *sorted(data.iterdir())]
    loose = [f"{stat.S_IMODE(each.stat().st_mode):04o} {each.name}" for each in places if each.stat().st_mode & 0o077]
    shown = ", ".join(loose[:3]) if loose else "all of it for its owner only"
    return Told(f"{len(loose)} of {len(places)} open to others: {shown}" if loose else shown, has_succeeded=bool(loose))


async def unwarned_file(stage: Stage) -> Told:
    """An overlay file with tokens that everybody can read: is anybody warned?"""
    log = Path(stage.logs["b1"]).read_text(encoding="utf-8", errors="replace").lower()
    lines = [line for line in log.splitlines() if "overlay.toml" in line]
    is_warned = any(word in line for line in lines for word in _WARNING_WORDS)
    return Told("the operator is warned" if is_warned else "no warning", has_succeeded=not is_warned)


async def replayed_datagrams(_stage: Stage) -> Told:
    """Replays a sealed datagram after 10,001 other senders have been heard."""
    now_ms = int(time.time() * 1_000)
    key = b"a shared key of the group"
    receiver = Seal(key, 0, now_ms=lambda: now_ms)
    datagram = Seal(key, 1, now_ms=lambda: now_ms).seal(b"command")
    receiver.open(datagram)
    for sender in range(2, 10_003):
        try:
            receiver.open(Seal(key, sender, now_ms=lambda: now_ms).seal(b"x"))
        except PeerError as error:
            return Told(f"sender {sender:,} is refused: {error}")
    try:
        receiver.open(datagram)
    except PeerError as error:
        return Told(f"the replay is refused: {error}")
    return Told("the replay counts again", has_succeeded=True)


async def _as_broker(peer: Peer) -> Told:
    peer.send(f.Hello(f.PROTOCOL_VERSION, "broker", "b2", OVERLAY, int(time.time() * 1_000)))
    if await peer.hear(f.LinkState, 5.0) is None:
        return Told(f"refused: {peer.last_words()}")
    return Told("passes for broker b2, and is told all filters", has_succeeded=True)
