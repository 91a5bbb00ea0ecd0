"""The setup of the live congestion experiments: the paper's simple topology, real brokers ([Gryphon] figure 1).

Deviation: phases take 30 to 50 s where the paper has 120 s, so that a run ends within three minutes. Sizes that
stand for a time are reduced with them: the output queue (5 MB in the paper) and a broker's cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.lab.demo_overlay import OverlayPlan

__all__ = [
    "HOSTS",
    "IB_SB1",
    "IB_SB2",
    "KIB",
    "LINKS",
    "OFFERED_MSG_S",
    "PB_IB",
    "PUBENDS",
    "WIRE_BYTES",
    "LivePlan",
    "live_plan",
]

KIB: Final = 1024
"""KB/s are binary."""
PUBENDS: Final = ("pb.1", "pb.2", "pb.3", "pb.4")
HOSTS: Final = ("sb1", "sb2")
PB_IB: Final = ("pb", "ib")
IB_SB1: Final = ("ib", "sb1")
IB_SB2: Final = ("ib", "sb2")
LINKS: Final = (PB_IB, IB_SB1, IB_SB2)
OFFERED_MSG_S: Final = 125.0
"""Offered to each pubend."""
WIRE_BYTES: Final = 360
"""The size of a message on a link between brokers, including all overhead."""
_QUEUE_BYTES: Final = 2 * 1024 * KIB
_CACHE_BYTES: Final = 256 * KIB
"""Cache for each pubend: about six seconds."""


@dataclass(slots=True, frozen=True)
class LivePlan(OverlayPlan):
    """Brokers and links, and their congestion settings."""

    congestion: Mapping[str, str | bool] = field(default_factory=dict)
    """Congestion parameters that differ from the defaults."""

    def toml(self, ports: Mapping[str, int]) -> str:
        """The text of the overlay file."""
        # Not super(): a dataclass with slots is a copy, and super() would refer to the original class.
        lines = [OverlayPlan.toml(self, ports).rstrip("\n"), "[congestion]"]
        for key, value in self.congestion.items():
            lines.append(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {str(value).lower()}")
        return "\n".join(lines) + "\n"


def live_plan(*, profile: str, control: bool) -> LivePlan:
    """The overlay of both experiments."""
    return LivePlan(
        {"pb": PUBENDS, "ib": (), "sb1": (), "sb2": ()},
        LINKS,
        defaults={"link_outbox_bytes": _QUEUE_BYTES, "cache_bytes": _CACHE_BYTES},
        congestion={"profile": profile, "pdcc": control, "sdcc": control},
    )
