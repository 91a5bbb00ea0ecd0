"""What the live experiments of congestion control run: the paper's simple topology, real brokers ([Gryphon] figure 1).

Deviation: phases take 30 to 50 s where the paper has 120 s, so that a run ends within three minutes. What is measured
against time is shortened with them: the output queue (5 MB there) and what a broker remembers for others.
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
"""To each pubend."""
WIRE_BYTES: Final = 360
"""What a message takes on a link between brokers, all included."""
_QUEUE_BYTES: Final = 2 * 1024 * KIB
_CACHE_BYTES: Final = 256 * KIB
"""Of each pubend: about six seconds."""


@dataclass(slots=True, frozen=True)
class LivePlan(OverlayPlan):
    """Brokers and links, and how congestion is controlled."""

    congestion: Mapping[str, str | bool] = field(default_factory=dict)
    """Parameters of congestion control that are to differ from the usual."""

    def toml(self, ports: Mapping[str, int]) -> str:
        """The overlay file."""
        # Not super(): a dataclass with slots is another class than the one that was written down.
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
