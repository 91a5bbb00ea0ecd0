"""Attacks as strangers: connections that say nothing, lie, or say too much; and requests to the operator's pages."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from bench.hostile.stage import Stage, Told
from bench.hostile.wire import Peer, Rejected, head
from penstock.protocol import frames as f
from penstock.protocol.codec import encode_frame

__all__ = [
    "claimed_name",
    "crowd",
    "foreign_drain",
    "heartbeat_first",
    "idle",
    "idle_admin",
    "unfinished_handshakes",
    "wrong_tokens",
]

_IDLE: Final = 1_010
_ADMIN_IDLE: Final = 70
_STRANGERS: Final = 100
_ANNOUNCED_BYTES: Final = 10 * 1024 * 1024
_SENT_BYTES: Final = 7 * 1024 * 1024
_NEWCOMER_S_MAX: Final = 15.0


async def idle(stage: Stage) -> Told:
    """1,010 connections that say nothing, and come back when disconnected."""
    return await crowd(stage, stage.port)


async def unfinished_handshakes(stage: Stage) -> Told:
    """1,010 connections to a port with TLS that never begin their handshake."""
    return await crowd(stage, stage.port, with_newcomer=False)


async def heartbeat_first(stage: Stage) -> Told:
    """100 strangers that begin with a heartbeat, and then send most of a very long frame."""
    held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    for _ in range(_STRANGERS):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
        held.append((reader, writer))
        writer.write(encode_frame(f.Heartbeat(0)) + head(_ANNOUNCED_BYTES) + bytes(_SENT_BYTES))
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(2.0):
                await writer.drain()
    await asyncio.sleep(3.0)
    ended = sum([await _is_over(reader) for reader, _ in held])
    for _, writer in held:
        writer.transport.abort()
    return Told(f"{ended} of {_STRANGERS} strangers that sent 7 MiB were thrown out")


async def wrong_tokens(stage: Stage) -> Told:
    """Guesses as many tokens as it can, from 20 connections at a time."""
    tried, deadline_s = 0, time.monotonic() + stage.seconds

    async def guess() -> None:
        nonlocal tried
        while time.monotonic() < deadline_s:
            with suppress(Rejected, OSError, TimeoutError):
                async with asyncio.timeout(max(deadline_s - time.monotonic(), 0.1)):
                    await Peer.client(stage.port, "feed", credential=f"guess {tried}")
            tried += 1

    await asyncio.gather(*(guess() for _ in range(20)))
    rate_s = tried / stage.seconds
    return Told(f"{rate_s:,.0f} guesses a second", has_succeeded=rate_s > 100, figures={"guesses_s": rate_s})


async def claimed_name(stage: Stage) -> Told:
    """Claims a name that the access list trusts, where nobody has a token."""
    peer = await Peer.client(stage.port, "admin")
    peer.send(f.Subscribe(1, "TRUE"))
    granted = await peer.hear(f.Subscribed, number=1)
    seen = granted.selector if granted is not None else "nothing"
    return Told(f"passes for admin, sees {seen}", has_succeeded=granted is not None)


async def idle_admin(stage: Stage) -> Told:
    """70 connections to the admin port that request nothing; then a load balancer asks for the health."""
    held = []
    for _ in range(_ADMIN_IDLE):
        with suppress(OSError):
            held.append(await asyncio.open_connection("127.0.0.1", stage.ports["admin"]))
    await asyncio.sleep(0.5)
    answer = await _http(stage, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    for _, writer in held:
        writer.transport.abort()
    is_well = answer.startswith("200")
    return Told(f"/health answers {answer}", has_succeeded=not is_well)


async def foreign_drain(stage: Stage) -> Told:
    """A drain to a broker elsewhere, with a foreign Host and Origin, as a page in the operator's browser can send."""
    request = (
        "POST /drain?to=x=penstock://elsewhere.example:7000=1000 HTTP/1.1\r\n"
        "Host: evil.example\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n\r\n"
    )
    answer = await _http(stage, request)
    return Told(f"the drain is answered with {answer}", has_succeeded=answer.startswith("200"))


async def crowd(stage: Stage, port: int, *, with_newcomer: bool = True) -> Told:
    """Keep ``_IDLE`` silent connections open during the attack, and see how a newcomer fares."""
    held: dict[int, asyncio.StreamWriter] = {}
    made = refused = 0
    deadline_s = time.monotonic() + stage.seconds

    async def hold(number: int) -> None:
        nonlocal made, refused
        while time.monotonic() < deadline_s:
            try:
                async with asyncio.timeout(5.0):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except (OSError, TimeoutError):
                refused += 1
                await asyncio.sleep(0.2)
                continue
            made += 1
            held[number] = writer
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(max(deadline_s - time.monotonic(), 0.1)):
                    await reader.read()
            writer.transport.abort()
            await asyncio.sleep(0.1)

    all_of_them = [asyncio.create_task(hold(number)) for number in range(_IDLE)]
    await asyncio.sleep(min(2.0, stage.seconds / 2))
    newcomer = await _newcomer(stage.port) if with_newcomer else ""
    await asyncio.gather(*all_of_them)
    return Told(f"{made:,} connections made, {refused:,} not accepted{newcomer}", figures={"made": made})


async def _newcomer(port: int) -> str:
    """How long an honest client that connects now has to wait."""
    started_s = time.monotonic()
    while time.monotonic() < started_s + _NEWCOMER_S_MAX:
        with suppress(Rejected, OSError, TimeoutError):
            async with asyncio.timeout(_NEWCOMER_S_MAX):
                peer = await Peer.client(port, "newcomer")
                await peer.close()
                return f", a newcomer waited {(time.monotonic() - started_s) * 1e3:,.0f} ms"
        await asyncio.sleep(0.05)
    return f", a newcomer was not let in within {_NEWCOMER_S_MAX:.0f} s"


async def _is_over(reader: asyncio.StreamReader) -> bool:
    """Whether the broker has ended a connection."""
    try:
        async with asyncio.timeout(0.05):
            await reader.read()
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


async def _http(stage: Stage, request: str) -> str:
    """The status line and the body of the answer, in short."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.ports["admin"])
    writer.write(request.encode())
    try:
        async with asyncio.timeout(5.0):
            lines, _, said = (await reader.read(4_096)).decode(errors="replace").partition("\r\n\r\n")
    except TimeoutError:
        return "nothing"
    finally:
        writer.transport.abort()
    status = lines.splitlines()[0].partition(" ")[2] if lines else "nothing"
    return f"{status} {said[:120]}".strip()
