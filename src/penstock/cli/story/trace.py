"""Chapter 5: one message is traced while everything runs: its origin, its path, its receivers ([Tracking])."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from rich.console import Console as RichConsole

from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story.outcome import Told
from penstock.cli.story.stage import Stage
from penstock.cli.trace import shown_trace
from penstock.tracking.answers import Trace

__all__ = ["receivers_in", "trace"]

_AGE_MS: Final = 2_000
"""A message of this age has arrived everywhere, unless somebody is far behind."""
_RECENT: Final = 400
"""How many recent messages to search for one with many receivers, up to ``_RECEIVERS_MAX``."""
_RECEIVERS_MAX: Final = 12
_ANSWER_S: Final = 15.0
_COLUMNS: Final = 110


async def trace(stage: Stage, told: Told) -> None:
    """Pick a message, trace it, and compare the answer with what subscribers recorded."""
    sent = _picked(stage)
    if sent is None:
        stage.say(told, "no message is old enough to be traced")
        told.as_expected = False
        return
    stage.say(told, f"message {sent.id}, of feed {sent.attributes.get('feed')}: who has it?")
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(_ANSWER_S):
            found = await stage.observer.trace(sent.id)
    except TimeoutError:
        stage.say(told, f"nobody answered within {_ANSWER_S:.0f} s")
        told.as_expected = False
        return
    took_ms = (time.monotonic() - began_s) * 1_000
    told.drawing = drawn(found)
    stage.narrator.show(shown_trace(found))
    named, have = {name for _, name in found.receivers}, receivers_in(stage, sent)
    agrees = named == have
    stage.say(told, f"{len(found.routed_by)} brokers had it; answered in {took_ms:,.0f} ms")
    same = "the same" if agrees else "not the same"
    stage.say(told, f"it names {len(named)} receivers; subscribers themselves say {len(have)}: {same}")
    told.facts = {"id": str(sent.id), "receivers": sorted(named), "answer_ms": round(took_ms, 1), "agrees": agrees}
    told.as_expected = agrees


def receivers_in(stage: Stage, sent: SentMessage) -> set[str]:
    """The subscribers that have a message, according to their own records."""
    wanted = sent.id.to_bytes()
    return {each.name for each in stage.crowd.members if wanted in each.ids}


def drawn(found: Trace) -> str:
    """The tree of a trace as text."""
    printer = RichConsole(width=_COLUMNS, highlight=False, color_system=None)
    with printer.capture() as capture:
        printer.print(shown_trace(found))
    return capture.get()


def _picked(stage: Stage) -> SentMessage | None:
    """Pick a recent message with many receivers, but no more than a page has room for."""
    newest_ms = time.time() * 1_000 - _AGE_MS
    old = [each for each in stage.crowd.sent[-4 * _RECENT :] if each.id.timestamp_ms <= newest_ms][-_RECENT:]
    counts = dict.fromkeys((each.id.to_bytes() for each in old), 0)
    for member in stage.crowd.members:
        for each in member.ids[-_RECENT * 2 :]:
            if each in counts:
                counts[each] += 1
    fitting = [each for each in old if 0 < counts[each.id.to_bytes()] <= _RECEIVERS_MAX]
    return max(fitting or old, key=lambda each: counts[each.id.to_bytes()], default=None)
