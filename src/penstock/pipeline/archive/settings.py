"""Settings of an archive: which stream, into which lake, how often, and how far."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.model.errors import MisuseError
from penstock.pipeline.lake.compaction import CompactionPolicy
from penstock.selectors import Selector

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["ArchiveSettings", "duration_s"]

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, None: 1.0}
_MISSING: Final = ("fail", "skip")


@dataclass(slots=True, frozen=True)
class ArchiveSettings:
    """One archive of one stream."""

    broker: str
    """Address of a broker, or several, separated by commas."""
    lake: str
    """The folder of the lake."""
    selector: str = "TRUE"
    start: str = "earliest"
    """Where a new archive begins: ``earliest``, ``latest``, or a time; an existing one resumes where it stopped."""
    missing: str = "fail"
    """What to do when a broker no longer has the next messages: ``fail`` or ``skip``."""
    every_s: float | None = 10.0
    """Seconds between batches; None to stop once everything published so far is archived."""
    rows_max: int = 1_000_000
    """Maximum rows in a batch."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source: token and TLS."""
    compaction: CompactionPolicy = field(default_factory=CompactionPolicy)

    def __post_init__(self) -> None:
        Selector.parse(self.selector)
        if self.missing not in _MISSING:
            raise MisuseError(f"missing is {self.missing!r}, but must be one of {', '.join(_MISSING)}")
        if self.rows_max < 1:
            raise MisuseError(f"the rows of a batch are {self.rows_max}, but must be at least 1")
        if self.every_s is not None and not 0 <= self.every_s <= 86_400:
            raise MisuseError(f"the time between batches is {self.every_s} s, outside 0 to a day")

    @property
    def canonical_selector(self) -> str:
        """The selector in canonical form, the same for equivalent selectors."""
        return str(Selector.parse(self.selector))

    def source_options(self) -> dict[str, str]:
        """The options of the source."""
        return {
            **self.source,
            "broker": self.broker,
            "selector": self.canonical_selector,
            "startingPosition": self.start,
            "missing": self.missing,
            "maxRowsPerTrigger": str(self.rows_max),
        }

    def triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Set the writer's trigger."""
        if self.every_s is None:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{round(self.every_s * 1_000)} milliseconds")


def duration_s(text: str) -> float:
    """Parse a duration as people write it into seconds.

    >>> duration_s("10s"), duration_s("500ms"), duration_s("2m"), duration_s("7")
    (10.0, 0.5, 120.0, 7.0)
    """
    match = _DURATION.fullmatch(text.strip().lower())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else math.inf
    if not math.isfinite(seconds):
        raise MisuseError(f"{text!r} is not a time such as 10s, 500ms, 2m or 1h")
    return seconds
