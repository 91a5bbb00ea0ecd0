"""Attacks on the WebSocket port of a broker: handshakes, messages and connections that never end, and pings."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.hostile.arena import memory_mib
from bench.hostile.hoarders import grown
from bench.hostile.stage import Stage, Told
from bench.hostile.stomp_wire import WebLine
from bench.stomp.websocket import BINARY, CONTINUATION, PING, web_frame

__all__ = ["dribbled_handshakes", "endless_messages", "pings", "unended"]

_CROWD: Final = 200
_MIB: Final = 1024 * 1024


async def dribbled_handshakes(stage: Stage) -> Told:
    """200 handshakes, a byte at a time."""
    lines = [await WebLine.dial(stage.web) for _ in range(_CROWD)]
    request = WebLine.request()[:-2] + b"X: " + b"x" * 20_000
    deadline_s = time.monotonic() + max(stage.seconds, 8.0)
    place = 0
    while time.monotonic() < deadline_s and not all(line.is_over for line in lines):
        for line in lines:
            line.send_bytes(request[place : place + 10])
        place += 10
        await asyncio.sleep(0.2)
    ended = sum(line.is_over for line in lines)
    return Told(f"{ended} of {_CROWD} handshakes were ended", has_succeeded=ended < _CROWD)


async def pings(stage: Stage) -> Told:
    """Pings as fast as they go, by one that reads the answers and by one that does not."""
    before_mib = memory_mib(stage.pids["b1"])
    sent = 0
    for is_deaf in (False, True):
        line = await WebLine.client(stage.web)
        if is_deaf:
            line.turn_deaf()
        ping = web_frame(PING, bytes(125)) * 200
        deadline_s = time.monotonic() + stage.seconds / 2
        while time.monotonic() < deadline_s:
            line.send_bytes(ping)
            if not await line.drain(1.0):
                break
            sent += 200
    return grown(stage, before_mib, f"{sent:,} pings")


async def endless_messages(stage: Stage) -> Told:
    """Messages of more than 16 MiB, in one frame and in fragments; then 15 MiB each by 40 clients, without an end."""
    words = []
    for is_one in (True, False):
        line = await WebLine.client(stage.web)
        if is_one:
            line.send_bytes(web_frame(BINARY, bytes(17 * _MIB))[:100_000])
        for number in range(0 if is_one else 20):
            line.send_bytes(web_frame(CONTINUATION if number else BINARY, bytes(_MIB), is_last=False))
            if not await line.drain(5.0):
                break
        await line.ended(5.0)
        words.append(f"closed with {line.counts['closed']}" if line.is_over else "still connected")
    is_let = "still connected" in words
    lines = []
    for _ in range(40):
        line = await WebLine.client(stage.web)
        lines.append(line)
        for number in range(15):
            line.send_bytes(web_frame(CONTINUATION if number else BINARY, bytes(_MIB), is_last=False))
            if not await line.drain(5.0):
                break
    await asyncio.sleep(1.0)
    ended = sum(line.is_over for line in lines)
    return Told(f"{' and '.join(words)}; of 40 unfinished ones {ended} were ended", has_succeeded=is_let)


async def unended(stage: Stage) -> Told:
    """200 clients that are told an ERROR and Close, and neither answer nor leave."""
    lines = [await WebLine.client(stage.web) for _ in range(_CROWD)]
    for line in lines:
        line.say("SEND", destination="nowhere")
    await asyncio.sleep(0.5)
    for line in lines:
        line.send_bytes(web_frame(BINARY, b"\n"))
    for line in lines:
        await line.ended(15.0)
    ended = sum(line.is_over for line in lines)
    return Told(f"{ended} of {_CROWD} connections were ended", has_succeeded=ended < _CROWD)
