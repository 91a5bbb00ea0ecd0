"""Plans the overlay of the story: a broker for publishers, two in between, four of different power for subscribers.

::

    publishers ► pb1 ─┬─ ib1 ─┬─ sb1   power 4   ◄ everybody joins here
                      │       └─ sb2         3
                      └─ ib2 ─┬─ sb3         2
                              └─ sb4         1

Intervals are shorter than in a real overlay, so that within two minutes there is something to see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

from penstock.cli.story.market import FEED, PUBENDS
from penstock.cli.story.settings import StorySettings
from penstock.lab.demo_overlay import OverlayPlan, free_ports
from penstock.lab.links.overlays import Link

__all__ = [
    "CUT",
    "HOSTS",
    "JOINED",
    "POWERS",
    "PUBLISHING",
    "THROTTLED",
    "StoryPlan",
    "can_ship",
    "story_plan",
]

PUBLISHING: Final = "pb1"
POWERS: Final = {"sb1": 4, "sb2": 3, "sb3": 2, "sb4": 1}
HOSTS: Final = tuple(POWERS)
JOINED: Final = "sb1"
"""The broker that all subscribers join."""
THROTTLED: Final[Link] = ("ib1", "sb1")
CUT: Final[Link] = ("pb1", "ib2")
_LINKS: Final = (("pb1", "ib1"), CUT, THROTTLED, ("ib1", "sb2"), ("ib2", "sb3"), ("ib2", "sb4"))
_BUSY: Final = 0.75
"""Load of the first host with all subscribers: high, but not so high that it refuses to do anything else."""
_RETAIN_MS: Final = 3_600_000


@dataclass(slots=True, frozen=True)
class StoryPlan(OverlayPlan):
    """Brokers and links, with tables for the mechanisms."""

    tables: Mapping[str, Mapping[str, int | float | str | bool]] = field(default_factory=dict)
    """Further tables of the file, by name."""

    def toml(self, ports: Mapping[str, int]) -> str:
        """The overlay file."""
        # Not super(): a dataclass with slots is a different class from the one defined here.
        lines = [OverlayPlan.toml(self, ports).rstrip("\n")]
        for name, values in self.tables.items():
            lines += [f"[{name}]", *(f"{key} = {_literal(value)}" for key, value in values.items())]
        return "\n".join(lines) + "\n"


def can_ship() -> bool:
    """Whether pyarrow is installed, which brokers need to write a lake."""
    return find_spec("pyarrow") is not None


def story_plan(settings: StorySettings, delivered_bytes_s: float, *, ship: bool = True) -> StoryPlan:
    """The overlay for a crowd that receives about ``delivered_bytes_s``."""
    pubends = {PUBLISHING: PUBENDS, "ib1": (), "ib2": (), **dict.fromkeys(HOSTS, ())}
    tables: dict[str, Mapping[str, int | float | str | bool]] = {
        "congestion": {"profile": "swift", "increase_min_msg_s": settings.least_increase},
        "tracking": {"strategy": "exact", "persist_ms": settings.persist_ms},
        "limit": {"attribute": FEED, "epoch_ms": 500},
        "token": {"op_ms": settings.ship_turn_ms, "min_ms": settings.ship_interval_ms},
        "balancing": _balancing(settings),
    }
    if ship:
        times = {"interval_ms": settings.ship_interval_ms, "turn_ms": settings.ship_turn_ms}
        tables["ship"] = {"lake": "lake", "when": "token", **times}
    unit = max(delivered_bytes_s, 1.0) / _BUSY / POWERS[JOINED]
    for name in pubends:
        tables[f"brokers.{name}.balancing"] = _own_balancing(name, unit)
    return StoryPlan(
        pubends,
        _LINKS,
        defaults={"retain_ms": _RETAIN_MS},
        own={PUBLISHING: {"admin_port": free_ports(1)[0]}},
        tables=tables,
    )


def _own_balancing(name: str, unit: float) -> Mapping[str, int | str | bool]:
    if name not in POWERS:
        return {"is_on": False}
    # One cluster, whatever the links: balancing between clusters takes longer than a demo lasts.
    return {"cluster": "demo", "role": "edge", "output_bandwidth": max(1, round(unit * POWERS[name]))}


def _balancing(settings: StorySettings) -> Mapping[str, int | float]:
    smoothing_ms = settings.smoothing_ms
    return {
        "local_ratio_trigger": 0.06,
        "measure_ms": settings.detection_ms // 2,
        "smoothing_ms": smoothing_ms,
        "detection_ms": settings.detection_ms,
        "pie_ms": settings.detection_ms,
        "peer_ms": 10_000,
        "stabilize_ms": smoothing_ms,
        "stabilize_share": 0.2,
        "samples_max": 60,
        "sample_ms": 1_500,
        "fruitless_ms": 5_000,
    }


def _literal(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
