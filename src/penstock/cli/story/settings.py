"""Sets how large, how fast and how patient the story is: two paces, which tests adapt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FAST", "FULL", "StorySettings"]


@dataclass(slots=True, frozen=True)
class StorySettings:
    """One pace; the time limits of chapters affect what is told, never the verdict."""

    subscribers: int = 200
    durable: int = 20
    """How many subscribers are durable: the ones that an audit judges."""
    rate: float = 120.0
    """Messages per second of all publishers together."""
    seed: int = 0
    spreading_s: float = 35.0
    """The longest wait until balancing has spread the subscribers."""
    harm_s: float = 12.0
    """The longest wait until a disturbance, or a limit, shows in the rates; and until its effect is gone."""
    view_s: float = 4.0
    """How long a state is kept, so that people can see it."""
    window_s: float = 2.0
    """The window over which rates are averaged."""
    sample_s: float = 0.5
    """Time between two samples."""
    token_s: float = 25.0
    """The longest wait for every broker to have the token once."""
    ship_interval_ms: int = 4_000
    """Least time between two shipments of one broker (Δmin)."""
    ship_turn_ms: int = 400
    """Budget of one shipment (Δop)."""
    smoothing_ms: int = 3_000
    """The window over which balancing averages loads."""
    detection_ms: int = 500
    """Time between two checks of the loads by balancing."""
    persist_ms: int = 1_000
    """Time between two stores of a broker's records; only stored records can be shipped."""
    least_increase: float = 1.0
    """The smallest step, in messages per second, by which slowed pubends speed up again."""
    traced: int = 1_000
    """Messages traced in bulk."""
    with_spark: bool = True
    rehearsed: tuple[tuple[str, ...], ...] = (("archive",), ("trace", "audit"))
    """What Spark rehearses if there is time: pieces of work, one after the other, each of parallel steps."""


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
    # There is no time to rehearse more: the story would be over first.
    rehearsed=(("archive",),),
)
"""As short as it can be: everything that ``FULL`` shows, with less time to look at it."""
