"""Throws inputs of the campaign ``edge-stomp`` at a broker process, over TCP and WebSocket, as many as one likes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from bench.edge_fuzz.stomp_talkers import StompTalker
from bench.hostile.arena import memory_mib
from bench.hostile.stage import Stage, Told
from bench.hostile.stomp_wire import StompLine, WebLine
from bench.hostile.wire import Rejected

__all__ = ["noise"]

_LINES: Final = 8
_PARTS_MAX: Final = 40
_VISIT_MAX: Final = 30
"""How often a talker speaks before another one takes its place."""
_ANSWER_S: Final = 0.02


async def noise(stage: Stage) -> Told:
    """Eight connections at a time, each of which comes again when it was ended."""
    thrown = ended = 0
    before_mib = memory_mib(stage.pids["b1"])
    started_s = time.monotonic()

    async def talk(place: int) -> None:
        nonlocal thrown, ended
        rng = Random(f"noise/{stage.seed}/{place}")
        kind = WebLine if place == 0 else StompLine
        while thrown < stage.inputs:
            talker = StompTalker(rng, pubends=("b1.a", "b1.a", "b1.loose"))
            with suppress(Rejected, OSError, TimeoutError):
                line = await kind.dial(stage.web if kind is WebLine else stage.stomp)
                try:
                    await line.begin()
                    line.send_stomp(talker.opening())
                    thrown += 1
                    for _ in range(rng.randrange(1, _VISIT_MAX)):
                        # Some answers are awaited, so that there is something to acknowledge.
                        await asyncio.sleep(rng.choice((0.0, _ANSWER_S)))
                        for frame in line.heard:
                            talker.hear(frame)
                        line.heard.clear()
                        if line.is_over or thrown >= stage.inputs:
                            break
                        parts = [talker.part() for _ in range(rng.randint(1, _PARTS_MAX))]
                        line.send_stomp(b"".join(parts))
                        thrown += len(parts)
                        await line.drain(1.0)
                    ended += line.is_over
                finally:
                    await line.close()

    await asyncio.gather(*(talk(place) for place in range(_LINES)))
    took_s = time.monotonic() - started_s
    grown_mib = memory_mib(stage.pids["b1"]) - before_mib
    text = f"{thrown:,} inputs in {took_s:,.0f} s, {ended:,} connections ended, the broker grew by {grown_mib:.0f} MiB"
    bugs = Path(stage.logs["b1"]).read_text(encoding="utf-8", errors="replace").count("Traceback")
    if bugs:
        return Told(f"{text}, {bugs} bugs in its log", has_succeeded=True)
    return Told(text, figures={"inputs": thrown, "grown_mib": grown_mib})
