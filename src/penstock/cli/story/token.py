"""Chapter 4: a token wanders between the brokers, and the one that has it ships its histories to the lake ([Token])."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from penstock.cli.story.outcome import Told
from penstock.cli.story.plan import can_ship
from penstock.cli.story.stage import Stage
from penstock.lab.token.figures import overlap_share
from penstock.lab.token.shipping import Shipment, shipments

__all__ = ["all_shipments", "overlapping", "shipped_since", "token"]

_SHOWN: Final = 14
_OVERLAP_MAX: Final = 0.05
"""Exclusion is soft: overlaps should be rare, not impossible. A cut link causes a second token for a while."""
_NO_LAKE: Final = "nobody ships: pyarrow is not installed; install it with: pip install 'penstock[spark]'"


async def token(stage: Stage, told: Told) -> None:
    """Wait until every broker has shipped once more, and show which did when."""
    if not can_ship():
        stage.say(told, _NO_LAKE)
        return
    begun_ms = time.time() * 1_000
    names = list(stage.overlay.plan.pubends)
    everybody = await stage.until(lambda: shipped_since(stage, begun_ms) >= set(names), stage.settings.token_s)
    found = all_shipments(stage)
    recent = [each for each in found if each.begun_ms >= begun_ms]
    walk = ", ".join(f"{each.broker} +{(each.begun_ms - begun_ms) / 1000:.1f} s" for each in recent[:_SHOWN])
    stage.say(told, f"who shipped when: {walk or 'nobody'}")
    at_once, share = overlapping(recent), _overlap(recent)
    stage.say(told, f"{len(recent)} shipments, {at_once} begun during another ({share:.1%} of the time two at once)")
    stage.say(told, f"{len(found)} shipments since the start, {overlapping(found)} begun during another")
    if not everybody:
        missing = ", ".join(sorted(set(names) - shipped_since(stage, begun_ms)))
        stage.say(told, f"within {stage.settings.token_s:.0f} s the token did not come to {missing}")
    told.facts = {
        "shipments": [(each.broker, each.begun_ms, each.ended_ms) for each in found],
        "overlapping": at_once,
        "overlap": share,
        "everybody": everybody,
    }
    told.as_expected = everybody and share <= _OVERLAP_MAX


def all_shipments(stage: Stage) -> list[Shipment]:
    """All shipments so far, from the logs of brokers, in the order in which they began."""
    overlay = stage.overlay
    found = [each for name in overlay.plan.pubends for each in shipments(overlay.brokers.log(name))]
    return sorted(found, key=lambda each: each.begun_ms)


def shipped_since(stage: Stage, since_ms: float) -> set[str]:
    """The brokers with a finished shipment that began since a time."""
    return {each.broker for each in all_shipments(stage) if each.begun_ms >= since_ms}


def _overlap(found: Sequence[Shipment]) -> float:
    """The share of the time in which two or more brokers were shipping."""
    if not found:
        return 0.0
    spans = [(float(each.begun_ms), float(each.ended_ms)) for each in found]
    return overlap_share(spans, spans[0][0], max(end for _, end in spans))


def overlapping(found: Sequence[Shipment]) -> int:
    """How many shipments began before the previous one had ended."""
    return sum(later.begun_ms < earlier.ended_ms for earlier, later in pairwise(found))
