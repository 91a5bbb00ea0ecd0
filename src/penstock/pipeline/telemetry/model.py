"""The data of a telemetry report, small enough to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = ["Episode", "FigureSummary", "Line", "TelemetryReport", "shown_time"]


@dataclass(slots=True, frozen=True)
class FigureSummary:
    """Summary of one figure of one broker."""

    broker: str
    metric: str
    labels: str
    samples: int
    lowest: float
    mean: float
    highest: float
    last: float
    rate_mean: float | None
    """Rate per second, for counters."""
    rate_highest: float | None


@dataclass(slots=True, frozen=True)
class Episode:
    """A time span in which a condition lasted."""

    kind: str
    broker: str
    labels: str
    began_ms: int
    ended_ms: int
    samples: int

    @property
    def seconds(self) -> float:
        """Time from its first sample to its last."""
        return (self.ended_ms - self.began_ms) / 1000


@dataclass(slots=True, frozen=True)
class Line:
    """A figure over time."""

    broker: str
    metric: str
    labels: str
    points: Sequence[tuple[int, float]]
    """Pairs of milliseconds and value."""

    @property
    def name(self) -> str:
        """Its name in the legend."""
        short = self.metric.removeprefix("penstock_").removesuffix("_total")
        values = " ".join(part.partition("=")[2] for part in self.labels.split(",") if part)
        return " ".join(part for part in (self.broker, short, values) if part)


@dataclass(slots=True, frozen=True)
class TelemetryReport:
    """The telemetry of a time span."""

    lake: str
    first_ms: int
    last_ms: int
    samples: int
    interval_ms: Mapping[str, float]
    """By broker, the interval between its samples."""
    figures: Sequence[FigureSummary]
    episodes: Sequence[Episode]
    lines: Mapping[str, Sequence[Line]]
    """Lines by chart title."""

    @property
    def brokers(self) -> list[str]:
        """The brokers that shipped telemetry."""
        return sorted({each.broker for each in self.figures})

    def summary(self) -> dict[str, Any]:
        """The summary, as it is printed and written."""
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
    """Format a time for people, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00") + "Z"
