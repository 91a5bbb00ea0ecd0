"""Tables of a lake as inputs of a job: checked before Spark reads them, so that what is wrong is told in one line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import VERSION_KEY, find_table
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.reading import read_table, table_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TimeSpan", "check_table", "input_table", "parse_time"]

_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MADE_BY: Final = {"publications": "penstock pipeline archive"}


@dataclass(slots=True, frozen=True)
class TimeSpan:
    """From when, included, until when, not included, in milliseconds since 1970; none for as far as there is."""

    from_ms: int | None = None
    to_ms: int | None = None

    def __post_init__(self) -> None:
        if self.from_ms is not None and self.to_ms is not None and self.from_ms >= self.to_ms:
            raise MisuseError(
                f"the time range ends at {_shown(self.to_ms)}, before it begins at {_shown(self.from_ms)}"
            )

    @classmethod
    def parse(cls, start: str | None, end: str | None) -> TimeSpan:
        """From what a user wrote: times with zone, or nothing."""
        return cls(None if start is None else parse_time(start), None if end is None else parse_time(end))

    def narrowed(self, frame: DataFrame, column: str, *, ticks: bool = False) -> DataFrame:
        """The rows of a frame in the span, by a column of times, or of ticks; and by the days of its folders."""
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
    """A time with zone as milliseconds since 1970.

    >>> parse_time("1970-01-01T00:00:01Z")
    1000
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise MisuseError(f"{text!r} is no time such as 2026-11-15T10:00:00Z") from None
    if time.tzinfo is None:
        raise MisuseError(f"time {text!r} has no zone: add Z for UTC, or one such as +01:00")
    if time < _1970:
        raise MisuseError(f"time {text!r} is before 1970")
    return (time - _1970) // _MILLISECOND


def input_table(spark: SparkSession, lake: str, name: str) -> DataFrame:
    """A table that must be there, with columns of the version that this Penstock has."""
    check_table(lake, name)
    return read_table(spark, lake, name)


def check_table(lake: str, name: str) -> int:
    """See that a table can be read, file by file; answers with how many it has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, paths = find_table(name), table_files(lake, name)
    if not paths:
        by = _MADE_BY.get(name, "brokers with a [ship] section, or penstock ship --now")
        raise MisuseError(f"the lake {lake} has no rows in its table {name} yet: it is written by {by}")
    for path in paths:
        try:
            metadata = pq.read_metadata(path).metadata or {}
        except FileNotFoundError:
            # Merged in the meantime; whoever reads sees the merged file.
            continue
        except (pa.ArrowInvalid, OSError) as error:
            raise LakeError(
                f"cannot read {path}: {str(error).splitlines()[0]}; move it away to go on without"
            ) from None
        version = metadata.get(VERSION_KEY.encode(), b"1").decode(errors="replace")
        if version != str(table.version):
            raise LakeMismatchError(
                f"{path} has columns of version {version}; this Penstock reads version {table.version} of {name}"
            )
    return len(paths)


def _shown(ms: int) -> str:
    return (_1970 + ms * _MILLISECOND).isoformat(timespec="milliseconds")
