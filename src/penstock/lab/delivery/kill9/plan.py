"""The overlay of ``delivery-kill9``, its pubends and selectors, and the blows drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Literal, TypeAlias

from penstock.lab.demo_overlay import OverlayPlan
from penstock.model.values import AttributeValue

__all__ = [
    "BROKERS",
    "HOSTS",
    "LINKS",
    "PLAN",
    "SELECTORS",
    "SOURCES",
    "Blow",
    "Kind",
    "Link",
    "draw_blows",
    "draw_quote",
]

Link: TypeAlias = tuple[str, str]
Kind: TypeAlias = Literal["kill", "stop", "cut", "stall", "silence"]

SOURCES: Final = ("pb1", "pb2")
"""The brokers that host pubends."""
HOSTS: Final = ("sb1", "sb2", "sb3")
"""The brokers that host subscribers."""
BROKERS: Final = (*SOURCES, "ib1", "ib2", *HOSTS)
LINKS: Final[tuple[Link, ...]] = (
    *((middle, source) for source in SOURCES for middle in ("ib1", "ib2")),
    *((host, middle) for host in HOSTS for middle in ("ib1", "ib2")),
    ("ib1", "ib2"),
)
"""Two paths between any two brokers, and cycles."""
PLAN: Final = OverlayPlan(
    {name: (f"{name}.a", f"{name}.b") if name in SOURCES else () for name in BROKERS},
    LINKS,
    {"heartbeat_ms": 250, "silent_ms": 2_000},
)
"""Default settings, except that silent connections are given up sooner, because runs are short."""
SELECTORS: Final = (
    "number > 0",
    "volume < 100",
    "symbol = 'S07'",
    "symbol LIKE 'S1%'",
    "symbol IN ('S01', 'S02') OR volume BETWEEN 500 AND 549",
    "publisher = 2 AND volume > 300",
)
"""From all messages to few. Every host has a subscriber to everything, by which recovery is measured."""

_SYMBOLS: Final = 40
_REST_S: Final = 4.0
"""No blow begins in the last seconds, so that all are repaired in time."""
_EVERY_S: Final[dict[tuple[Kind, ...], float]] = {("kill",): 2.5, ("stop",): 7.5, ("cut", "stall", "silence"): 4.0}
"""The average interval between blows of these kinds."""
_PAUSE_S_MAX: Final[dict[Kind, float]] = {"kill": 2.5, "stop": 4.0, "cut": 3.0, "stall": 4.0, "silence": 4.0}


@dataclass(slots=True, frozen=True)
class Blow:
    """One injected fault."""

    at_s: float
    kind: Kind
    target: str | Link
    """A broker that is killed or stopped, or a link that is cut, stalled, or stalled and then cut."""
    pause_s: float
    """Time until the target is repaired."""


def draw_blows(rng: Random, seconds: float) -> list[Blow]:
    """Draw the blows of a run with this many seconds of harm, in order of time.

    >>> [sum(each.kind == "kill" for each in draw_blows(Random(1), seconds)) for seconds in (45, 120)]
    [18, 48]
    """
    blows = [
        _draw_blow(rng, kinds, seconds)
        for kinds, every_s in _EVERY_S.items()
        for _ in range(max(1, round(seconds / every_s)))
    ]
    return sorted(blows, key=lambda blow: blow.at_s)


def draw_quote(rng: Random) -> dict[str, AttributeValue]:
    """The attributes of a message, before it gets its number."""
    return {"symbol": f"S{rng.randrange(_SYMBOLS):02}", "volume": rng.randrange(1_000)}


def _draw_blow(rng: Random, kinds: Sequence[Kind], seconds: float) -> Blow:
    kind = rng.choice(kinds)
    target = rng.choice(BROKERS) if kind in {"kill", "stop"} else rng.choice(LINKS)
    # Some brokers come back at once, before anybody has noticed.
    pause_s = 0.0 if kind == "kill" and rng.random() < 0.3 else rng.uniform(0.05, _PAUSE_S_MAX[kind])
    return Blow(rng.uniform(0.0, max(seconds - _REST_S, seconds / 2)), kind, target, pause_s)
