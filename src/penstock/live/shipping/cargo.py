"""Collects rows of the lake's tables on their way into files, by table and day.

Values are as pyarrow takes them, times in microseconds; incarnation and sequence are added with the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from penstock.model.lake_tables import LakeTable

__all__ = ["BATCH_COLUMNS", "Cargo", "Parcel", "day_of", "micros"]

BATCH_COLUMNS: Final = ("incarnation", "sequence")
"""The columns that are the same in all rows of a file."""
_DAY_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond that has a date."""


@dataclass(slots=True)
class Parcel:
    """The rows of one file."""

    table: LakeTable
    day: str
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """Values in the order of the table's columns, without those of the batch."""
    blocks: list[Mapping[str, Any]] = field(default_factory=list)
    """More rows as columns, for many rows at once."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of its rows, without those of the batch."""
        return tuple(column.name for column in self.table.columns if column.name not in BATCH_COLUMNS)


class Cargo:
    """All rows of one batch."""

    def __init__(self) -> None:
        self._parcels: dict[tuple[str, str], Parcel] = {}
        self.rows = 0

    def __bool__(self) -> bool:
        return bool(self._parcels)

    def __iter__(self) -> Iterator[Parcel]:
        return iter(self._parcels.values())

    def add(self, table: LakeTable, day_ms: int, *values: Any) -> None:
        """Add one row to a day."""
        self._parcel(table, day_ms).rows.append(values)
        self.rows += 1

    def add_block(self, table: LakeTable, day_ms: int, columns: Mapping[str, Any], count: int) -> None:
        """Add many rows to a day, as columns."""
        self._parcel(table, day_ms).blocks.append(columns)
        self.rows += count

    def _parcel(self, table: LakeTable, day_ms: int) -> Parcel:
        day = day_of(day_ms)
        key = table.name, day
        if key not in self._parcels:
            self._parcels[key] = Parcel(table, day)
        return self._parcels[key]


def day_of(time_ms: int) -> str:
    """The day of a time, in UTC.

    >>> day_of(1_700_000_000_000)
    '2023-11-14'
    """
    return datetime.fromtimestamp(min(max(time_ms, 0), _DAY_MS_MAX) // 1_000, UTC).date().isoformat()


def micros(time_ms: int | None) -> int | None:
    """A time in microseconds, as files have it."""
    return None if time_ms is None else min(max(time_ms, 0), _DAY_MS_MAX) * 1_000
