"""Chapter 2: a link becomes narrow and another is cut; rates fall and recover, and nothing is lost ([Gryphon])."""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.cli.story.outcome import Told
from penstock.cli.story.plan import CUT, THROTTLED
from penstock.cli.story.stage import Stage
from penstock.lab.links.overlays import Link

__all__ = ["links"]

_NARROW: Final = 0.25
"""The bandwidth of the throttled link, as a share of what it carried."""
_BYTES_S_MIN: Final = 2_000.0
_FALLEN: Final = 0.7
_SLOWED: Final = 0.9
_RECOVERED: Final = 0.75
_SILENT: Final = 0.05
_STEADY: Final = 0.9
_BEHIND: Final = ("sb3", "sb4")
"""The hosts behind the link that is cut."""


async def links(stage: Stage, told: Told) -> None:
    """Throttle one link, then cut another."""
    throttled = await _throttle(stage, told)
    told.as_expected = await _cut(stage, told) and throttled
    # Publishers may still be slowed down while hosts catch up; the next chapter begins when they are not.
    await stage.until(lambda: stage.published_rate() > _STEADY * stage.settings.rate, stage.settings.harm_s)


async def _throttle(stage: Stage, told: Told) -> bool:
    host, harm_s = THROTTLED[1], stage.settings.harm_s
    usual, published = stage.delivered_rate(host), stage.published_rate()
    carried = await _carried_bytes_s(stage, THROTTLED)
    narrow = max(carried * _NARROW, _BYTES_S_MIN)
    stage.overlay.limit(THROTTLED, narrow)
    stage.say(
        told, f"{_name(THROTTLED)} carried {carried / 1000:.1f} KB/s; it is throttled to {narrow / 1000:.1f} KB/s"
    )
    fell = await stage.until(lambda: stage.delivered_rate(host) < _FALLEN * usual, harm_s)
    await stage.view()
    # Congestion control reacts to the reports of the host, some seconds later; a short story may not see it.
    await stage.until(lambda: stage.published_rate() < _SLOWED * published, harm_s - stage.settings.view_s)
    low, slowed = stage.delivered_rate(host), stage.published_rate()
    stage.say(told, f"{host} delivers {low:,.0f}/s instead of {usual:,.0f}/s")
    if slowed < _SLOWED * published:
        stage.say(
            told, f"publishers follow: {slowed:,.0f}/s instead of {published:,.0f}/s, so as not to leave it behind"
        )
    stage.overlay.limit(THROTTLED, 0)
    came_back = await stage.until(lambda: stage.delivered_rate(host) > _RECOVERED * usual, harm_s)
    stage.say(told, f"the link is as before: {host} delivers {stage.delivered_rate(host):,.0f}/s")
    _honest(stage, told, fell=fell, came_back=came_back)
    told.facts["throttle"] = {"usual": usual, "low": low, "fell": fell, "recovered": came_back}
    told.facts["publishers"] = {"usual": published, "low": slowed}
    return fell and came_back


async def _cut(stage: Stage, told: Told) -> bool:
    harm_s = stage.settings.harm_s
    usual = stage.delivered_rate(*_BEHIND)
    if not usual:
        stage.say(told, f"nobody is behind {_name(CUT)}, so that cutting it would show nothing")
        return False
    stage.overlay.cut(CUT)
    stage.say(told, f"{_name(CUT)} is cut: {' and '.join(_BEHIND)} hear nothing any more")
    fell = await stage.until(lambda: stage.delivered_rate(*_BEHIND) < _SILENT * usual, harm_s)
    low = stage.delivered_rate(*_BEHIND)
    stage.overlay.restore(CUT)
    came_back = await stage.until(lambda: stage.delivered_rate(*_BEHIND) > _RECOVERED * usual, harm_s)
    now = stage.delivered_rate(*_BEHIND)
    stage.say(told, f"from {usual:,.0f}/s to {low:,.0f}/s; the link is back, and {now:,.0f}/s are delivered there")
    _honest(stage, told, fell=fell, came_back=came_back)
    told.facts["cut"] = {"usual": usual, "low": low, "fell": fell, "recovered": came_back}
    return fell and came_back


async def _carried_bytes_s(stage: Stage, link: Link) -> float:
    """Bytes per second that the link carries towards its second broker, measured for a while."""
    begun_s, begun = stage.clock(), await asyncio.to_thread(stage.overlay.passed_bytes, link)
    await stage.view(1.0)
    passed = await asyncio.to_thread(stage.overlay.passed_bytes, link) - begun
    return passed / (stage.clock() - begun_s)


def _honest(stage: Stage, told: Told, *, fell: bool, came_back: bool) -> None:
    limit = f"within {stage.settings.harm_s:.0f} s"
    if not fell:
        stage.say(told, f"the rate did not fall {limit}: the machine may be too busy to tell")
    if not came_back:
        stage.say(told, f"the rate was not back {limit}; whatever is late still comes")


def _name(link: Link) -> str:
    return f"the link {link[0]} - {link[1]}"
