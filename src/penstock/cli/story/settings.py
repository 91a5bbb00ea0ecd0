"""How large, how fast and how patient the story is: two paces, and what tests make of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FAST", "FULL", "StorySettings"]


@dataclass(slots=True, frozen=True)
class StorySettings:
    """One pace; the limits of chapters change what is told, never the verdict."""

    subscribers: int = 200
    durable: int = 20
    """So many of them are durable: those are the ones that an audit judges."""
    rate: float = 120.0
    """Messages per second of all publishers together."""
    seed: int = 0
    spreading_s: float = 35.0
    """The longest wait until balancing has spread the subscribers."""
    harm_s: float = 12.0
    """The longest wait until a harm, or a limit, shows in the rates; and until it is gone."""
    view_s: float = 4.0
    """How long something is left as it is, to be seen."""
    window_s: float = 2.0
    """What rates are averaged over."""
    sample_s: float = 0.5
    """Between two samples of them."""
    token_s: float = 25.0
    """The longest wait for every broker to have the token once."""
    ship_interval_ms: int = 4_000
    """Least time between two shipments of one broker (Δmin)."""
    ship_turn_ms: int = 400
    """Budget of one shipment (Δop)."""
    smoothing_ms: int = 3_000
    """What balancing averages loads over."""
    detection_ms: int = 500
    """Between two looks of balancing at these loads."""
    persist_ms: int = 1_000
    """Between two times that a broker stores what it has on record, and can ship from then on."""
    least_increase: float = 1.0
    """The least step, in messages per second, by which pubends that had to slow down become faster again."""
    traced: int = 1_000
    """Messages that are traced in bulk."""
    with_spark: bool = True
    rehearsed: tuple[tuple[str, ...], ...] = (("archive",), ("trace", "audit"))
    """What Spark does once before it counts, if there is time: works, one after the other, of steps side by side."""


FULL: Final = StorySettings()
"""About two minutes."""
FAST: Final = StorySettings(
    spreading_s=25.0,
    harm_s=10.0,
    view_s=1.0,
    window_s=1.0,
    sample_s=0.25,
    token_s=10.0,
    ship_interval_ms=1_500,
    ship_turn_ms=150,
    smoothing_ms=600,
    detection_ms=250,
    persist_ms=300,
    least_increase=12.0,
    # For more there is no time: what it spares would come after the story.
    rehearsed=(("archive",),),
)
"""As short as it can be: everything that ``FULL`` shows, with less time to look at it."""
