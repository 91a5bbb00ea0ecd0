"""A time span that users give a job: checked before Spark starts, then used to filter a frame."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from penstock.model.errors import MisuseError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TimeSpan", "parse_time"]

_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(slots=True, frozen=True)
class TimeSpan:
    """A half-open span, start included, in milliseconds since 1970; None leaves that side open."""

    from_ms: int | None = None
    to_ms: int | None = None

    def __post_init__(self) -> None:
        if self.from_ms is not None and self.to_ms is not None and self.from_ms >= self.to_ms:
            raise MisuseError(
                f"the time range ends at {_shown(self.to_ms)}, before it begins at {_shown(self.from_ms)}"
            )

    @classmethod
    def parse(cls, start: str | None, end: str | None) -> TimeSpan:
        """Parse what a user wrote: times with a zone, or nothing."""
        return cls(None if start is None else parse_time(start), None if end is None else parse_time(end))

    def narrowed(self, frame: DataFrame, column: str, *, ticks: bool = False) -> DataFrame:
        """Filter a frame to the span, by a column of times or of ticks, and by the dates of its folders."""
        from pyspark.sql import functions as sql

        for ms, is_start in ((self.from_ms, True), (self.to_ms, False)):
            if ms is None:
                continue
            at, day = _1970 + ms * _MILLISECOND, (_1970 + ms * _MILLISECOND).date()
            bound = sql.lit(ms << 16 if ticks else at)
            in_span = sql.col(column) >= bound if is_start else sql.col(column) < bound
            in_days = sql.col("date") >= sql.lit(day) if is_start else sql.col("date") <= sql.lit(day)
            frame = frame.where(in_span & in_days)
        return frame


def parse_time(text: str) -> int:
    """Parse a time with a zone into milliseconds since 1970.

    >>> parse_time("1970-01-01T00:00:01Z")
    1000
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise MisuseError(f"{text!r} is not a time; write one like 2026-11-15T10:00:00Z") from None
    if time.tzinfo is None:
        raise MisuseError(f"time {text!r} has no time zone: add Z for UTC, or an offset such as +01:00")
    if time < _1970:
        raise MisuseError(f"time {text!r} is before 1970")
    return (time - _1970) // _MILLISECOND


def _shown(ms: int) -> str:
    return (_1970 + ms * _MILLISECOND).isoformat(timespec="milliseconds")
