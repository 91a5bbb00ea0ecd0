"""What the telemetry of a time says, small enough to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = ["Episode", "FigureSummary", "Line", "TelemetryReport", "shown_time"]


@dataclass(slots=True, frozen=True)
class FigureSummary:
    """One figure of one broker in short."""

    broker: str
    metric: str
    labels: str
    samples: int
    lowest: float
    mean: float
    highest: float
    last: float
    rate_mean: float | None
    """Per second, of a figure that only grows."""
    rate_highest: float | None


@dataclass(slots=True, frozen=True)
class Episode:
    """A time in which something lasted."""

    kind: str
    broker: str
    labels: str
    began_ms: int
    ended_ms: int
    samples: int

    @property
    def seconds(self) -> float:
        """From its first sample to its last."""
        return (self.ended_ms - self.began_ms) / 1000


@dataclass(slots=True, frozen=True)
class Line:
    """A figure over time."""

    broker: str
    metric: str
    labels: str
    points: Sequence[tuple[int, float]]
    """Milliseconds with values."""

    @property
    def name(self) -> str:
        """What the legend calls it."""
        short = self.metric.removeprefix("penstock_").removesuffix("_total")
        values = " ".join(part.partition("=")[2] for part in self.labels.split(",") if part)
        return " ".join(part for part in (self.broker, short, values) if part)


@dataclass(slots=True, frozen=True)
class TelemetryReport:
    """What the telemetry of a time says."""

    lake: str
    first_ms: int
    last_ms: int
    samples: int
    interval_ms: Mapping[str, float]
    """By broker, how far apart its samples are."""
    figures: Sequence[FigureSummary]
    episodes: Sequence[Episode]
    lines: Mapping[str, Sequence[Line]]
    """By the title of a chart."""

    @property
    def brokers(self) -> list[str]:
        """Those that shipped."""
        return sorted({each.broker for each in self.figures})

    def summary(self) -> dict[str, Any]:
        """In short, as it is printed and written."""
        return {
            "lake": self.lake,
            "from": shown_time(self.first_ms),
            "to": shown_time(self.last_ms),
            "brokers": self.brokers,
            "samples": self.samples,
            "interval_ms": dict(self.interval_ms),
            "figures": len(self.figures),
            "episodes": [{**asdict(each), "seconds": each.seconds} for each in self.episodes],
            "highlights": [asdict(each) for each in self.highlights()],
        }

    def highlights(self) -> list[FigureSummary]:
        """The figures that charts show, and those of mechanisms."""
        drawn = {line.metric for lines in self.lines.values() for line in lines}
        return [each for each in self.figures if each.metric in drawn or each.metric == "penstock_mechanism"]


def shown_time(ms: int) -> str:
    """A time for people, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00") + "Z"
