"""The setup of ``balancing-live``: a head, three edges of different power, quotes and selectors ([PADRES] section 6).

The edges differ in their configured output bandwidth, 1 : 2 : 4. It is chosen so that all subscribers together would
use four tenths of all three, and far more than B1 alone has. Deviations from the paper: what takes minutes there takes
seconds here, so that a run ends within three minutes; only the output is out of balance, since real brokers match a few
quotes per second in no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from penstock.lab.demo_overlay import OverlayPlan
from penstock.model.values import AttributeValue

__all__ = [
    "EDGES",
    "HEAD",
    "PAYLOAD",
    "POWERS",
    "PUBENDS",
    "SELECTORS",
    "BalancedPlan",
    "bandwidths",
    "draw_quote",
    "live_plan",
    "live_settings",
]

HEAD: Final = "B0"
POWERS: Final = {"B1": 1, "B2": 2, "B3": 4}
EDGES: Final = tuple(POWERS)
PUBENDS: Final = ("B0.a", "B0.b")
PAYLOAD: Final = bytes(range(100))
_SYMBOLS: Final = tuple(f"S{number}" for number in range(10))
_VOLUMES: Final = 1_000
SELECTORS: Final = (
    *(f"symbol = '{symbol}'" for symbol in _SYMBOLS),
    *(f"symbol = '{symbol}' AND volume >= {_VOLUMES // 2}" for symbol in _SYMBOLS),
)
"""Selectors that subscribers take in turn: all quotes of a stock, or the half with the larger volumes."""
_SHARE_WANTED: Final = 0.75 / len(_SYMBOLS)
"""The share of all quotes that a subscriber gets on average."""
_DELIVERY_BYTES: Final = 185
"""The measured size of a delivered quote, including all overhead."""
_OUTPUT_BALANCED: Final = 0.4
"""The output utilisation of all edges when they are balanced."""


@dataclass(slots=True, frozen=True)
class BalancedPlan(OverlayPlan):
    """Brokers and links, and their balancing settings."""

    balancing: Mapping[str, int] = field(default_factory=dict)
    """Balancing parameters that differ from the defaults."""
    bandwidths: Mapping[str, int] = field(default_factory=dict)
    """By edge, its bandwidth towards its clients, in bytes per second."""

    def toml(self, ports: Mapping[str, int]) -> str:
        """The text of the overlay file."""
        # Not super(): a dataclass with slots is a copy, and super() would refer to the original class.
        lines = [OverlayPlan.toml(self, ports).rstrip("\n"), "[balancing]"]
        lines += [f"{key} = {value}" for key, value in self.balancing.items()]
        for name, bandwidth in self.bandwidths.items():
            lines += [f"[brokers.{name}.balancing]", f"output_bandwidth = {bandwidth}"]
        return "\n".join(lines) + "\n"


def live_plan(*, subscribers: int, rate: float, smoothing_ms: int) -> BalancedPlan:
    """The overlay for this many subscribers and quotes per second."""
    return BalancedPlan(
        {HEAD: PUBENDS} | dict.fromkeys(EDGES, ()),
        [(edge, HEAD) for edge in EDGES],
        balancing=live_settings(smoothing_ms),
        bandwidths=bandwidths(subscribers, rate),
    )


def live_settings(smoothing_ms: int) -> dict[str, int]:
    """Parameters for loads averaged over this time, in about the same proportions as the defaults.

    >>> live_settings(5_000)["stabilize_ms"]
    6000
    """
    return {
        "smoothing_ms": smoothing_ms,
        "measure_ms": smoothing_ms // 10,
        "detection_ms": smoothing_ms // 5,
        "pie_ms": smoothing_ms * 2 // 5,
        "peer_ms": smoothing_ms * 2,
        "sample_ms": smoothing_ms,
        # Twice the default: it must tell apart interests that differ only by a factor of two.
        "samples_max": 100,
        # Longer than the averaging time, so that the load before the session is forgotten.
        "stabilize_ms": smoothing_ms * 6 // 5,
        "inert_ms": smoothing_ms * 2,
        "fruitless_ms": smoothing_ms * 4,
        # A sixth of the default, like the two before it.
        "return_ms": smoothing_ms * 20,
    }


def bandwidths(subscribers: int, rate: float) -> dict[str, int]:
    """The output bandwidth of each edge, in bytes per second."""
    bytes_s = subscribers * rate * _SHARE_WANTED * _DELIVERY_BYTES
    unit = bytes_s / _OUTPUT_BALANCED / sum(POWERS.values())
    return {edge: max(1, round(power * unit)) for edge, power in POWERS.items()}


def draw_quote(rng: Random, number: int) -> dict[str, AttributeValue]:
    """The attributes of a quote; stocks take turns, so that all have the same rate."""
    return {"symbol": _SYMBOLS[number % len(_SYMBOLS)], "volume": rng.randrange(_VOLUMES)}
