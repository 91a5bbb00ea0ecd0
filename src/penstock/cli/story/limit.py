"""Chapter 3: a low limit on all publishing is set for a while, and lifted ([Ajil])."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from penstock.ajil import Aup
from penstock.cli.admin import ask_all
from penstock.cli.limit import current
from penstock.cli.story.outcome import Told
from penstock.cli.story.plan import PUBLISHING
from penstock.cli.story.stage import Stage
from penstock.live.config import load_overlay
from penstock.model.errors import PenstockError

__all__ = ["LimitError", "limit"]

_SHARE: Final = 0.5
"""The limit, as a share of what is published."""
_HELD: Final = 1.15
"""A rate up to this multiple of the limit counts as held: reactions come an epoch late."""
_RECOVERED: Final = 0.8
_AUTHOR: Final = "demo"


class LimitError(PenstockError):
    """The broker did not accept the limit."""


async def limit(stage: Stage, told: Told) -> None:
    """Set the limit, watch the rates, and lift it."""
    feeds = [each.name for each in stage.crowd.market.feeds]
    usual, before = stage.published_rate(), {name: stage.feed_rate(name) for name in feeds}
    bound = max(usual * _SHARE, 1.0)
    told.facts |= {"usual": usual, "limit": bound, "feeds_before": before}
    await _set(stage, limit_packets_s=round(bound, 1))
    stage.say(told, f"{usual:,.0f} messages/s are published; the limit is {bound:,.0f}/s from now on, for all together")
    told.facts["set_s"] = stage.sampler.now_s
    held = await stage.until(lambda: stage.published_rate() <= _HELD * bound, stage.settings.harm_s)
    await stage.view(max(stage.settings.view_s, stage.settings.window_s))
    low, under = stage.published_rate(), {name: stage.feed_rate(name) for name in feeds}
    stage.say(told, f"published: {low:,.0f}/s; by feed {_shown(before, under)}")
    await _set(stage, limit_packets_s=None)
    told.facts["lifted_s"] = stage.sampler.now_s
    recovered = await stage.until(lambda: stage.published_rate() >= _RECOVERED * usual, stage.settings.harm_s)
    stage.say(told, f"the limit is lifted: {stage.published_rate():,.0f}/s; publishers waited, no message was dropped")
    if not held:
        stage.say(told, f"the limit was not held within {stage.settings.harm_s:.0f} s")
    if not recovered:
        stage.say(told, f"the rate was not back within {stage.settings.harm_s:.0f} s")
    told.facts |= {"low": low, "feeds_under": under, "held": held, "recovered": recovered}
    told.as_expected = held and recovered


async def _set(stage: Stage, **changes: Any) -> Aup:
    """Set the limit as ``penstock limit set`` does, at the publishers' broker; the other brokers hear of it."""
    return await asyncio.to_thread(_change, stage, changes)


def _change(stage: Stage, changes: dict[str, Any]) -> Aup:
    overlay = load_overlay(stage.file)
    places = [overlay.brokers[PUBLISHING]]
    # Every feed above its share reacts at once: with four publishers there are no averages to hide in.
    aup = current(overlay, ask_all(overlay, places, "GET", "/limit", {})).successor(_AUTHOR, **changes)
    told = {"aup": msgspec.json.encode(aup).decode()}
    (answer,) = ask_all(overlay, places, "POST", "/limit", told)
    if answer.result != "applied":
        raise LimitError(f"broker {answer.name} did not take the limit: {answer.reason or answer.result}")
    return aup


def _shown(before: dict[str, float], under: dict[str, float]) -> str:
    return ", ".join(f"{name} {before[name]:,.0f} → {under[name]:,.0f}" for name in before)
