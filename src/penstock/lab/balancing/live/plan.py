"""What ``balancing-live`` runs: a head, three edges of different power, quotes and who wants them ([PADRES] section 6).

The edges differ by the output bandwidth that they are configured with, 1 : 2 : 4. It is chosen so that everybody
together would take all three to four tenths, and B1 alone far beyond what it has. Deviations: what takes minutes in the
paper takes seconds here, so that a run ends within three minutes; only the output is out of balance, since real
brokers match a few quotes per second in no time.
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
"""What is wanted, in turn: all quotes of a stock, or the larger half of them."""
_SHARE_WANTED: Final = 0.75 / len(_SYMBOLS)
"""Of all quotes, those that a subscriber gets on average."""
_DELIVERY_BYTES: Final = 185
"""What a delivered quote counts, all included: measured."""
_OUTPUT_BALANCED: Final = 0.4
"""The output utilisation of all edges when they are balanced."""


@dataclass(slots=True, frozen=True)
class BalancedPlan(OverlayPlan):
    """Brokers and links, and how they balance themselves."""

    balancing: Mapping[str, int] = field(default_factory=dict)
    """Parameters of balancing that are to differ from the usual."""
    bandwidths: Mapping[str, int] = field(default_factory=dict)
    """By edge, what it can send to its clients, in bytes per second."""

    def toml(self, ports: Mapping[str, int]) -> str:
        """The overlay file."""
        # Not super(): a dataclass with slots is another class than the one that was written down.
        lines = [OverlayPlan.toml(self, ports).rstrip("\n"), "[balancing]"]
        lines += [f"{key} = {value}" for key, value in self.balancing.items()]
        for name, bandwidth in self.bandwidths.items():
            lines += [f"[brokers.{name}.balancing]", f"output_bandwidth = {bandwidth}"]
        return "\n".join(lines) + "\n"


def live_plan(*, subscribers: int, rate: float, smoothing_ms: int) -> BalancedPlan:
    """The overlay for so many subscribers and so many quotes per second."""
    return BalancedPlan(
        {HEAD: PUBENDS} | dict.fromkeys(EDGES, ()),
        [(edge, HEAD) for edge in EDGES],
        balancing=live_settings(smoothing_ms),
        bandwidths=bandwidths(subscribers, rate),
    )


def live_settings(smoothing_ms: int) -> dict[str, int]:
    """Parameters that stand to each other about as the usual ones do, for metrics that are averaged over this time.

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
        # Twice the usual: interests that differ by a factor of two only must be told apart.
        "samples_max": 100,
        # Longer than what is averaged: the load of before the session must be forgotten.
        "stabilize_ms": smoothing_ms * 6 // 5,
        "inert_ms": smoothing_ms * 2,
        "fruitless_ms": smoothing_ms * 4,
        # A sixth of the usual, as the two before it.
        "return_ms": smoothing_ms * 20,
    }


def bandwidths(subscribers: int, rate: float) -> dict[str, int]:
    """By edge, its output bandwidth, in bytes per second."""
    bytes_s = subscribers * rate * _SHARE_WANTED * _DELIVERY_BYTES
    unit = bytes_s / _OUTPUT_BALANCED / sum(POWERS.values())
    return {edge: max(1, round(power * unit)) for edge, power in POWERS.items()}


def draw_quote(rng: Random, number: int) -> dict[str, AttributeValue]:
    """What the quote of this number says: stocks take turns, so that all have the same rate."""
    return {"symbol": _SYMBOLS[number % len(_SYMBOLS)], "volume": rng.randrange(_VOLUMES)}
