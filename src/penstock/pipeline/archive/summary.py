"""Summary of an archive's work and lag, for people and for programs."""

from __future__ import annotations

import msgspec

__all__ = ["ArchiveSummary", "shown_bytes"]


class ArchiveSummary(msgspec.Struct, frozen=True):
    """The totals of one run of an archive, up to a moment."""

    lake: str
    rows: int
    """Rows archived in this run."""
    files: int
    """Files written in this run, before merging."""
    bytes: int
    batches: int
    repeated: int
    """Batches that an earlier run had archived without Spark's checkpoint knowing."""
    merges: int
    table_files: int
    """Files in the table now, from all runs."""
    table_bytes: int
    lag_s: float | None
    """How far the archive is behind the latest publication; None if the source does not say."""
    seconds: float
    is_complete: bool
    """Whether everything present at the start was archived; only when the archive was asked to stop there."""

    def to_json(self) -> str:
        """Indented JSON, with the fields in this order."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def line(self) -> str:
        """One line for people."""
        lag = "" if self.lag_s is None else f", lag {self.lag_s:,.1f} s"
        written, there = shown_bytes(self.bytes), shown_bytes(self.table_bytes)
        return (
            f"{self.rows:,} rows archived in {self.files:,} files of {written}, {self.batches:,} batches, "
            f"{self.merges:,} merges{lag}; the table has {self.table_files:,} files of {there}"
        )


def shown_bytes(count: float) -> str:
    """Format a number of bytes for people.

    >>> shown_bytes(999), shown_bytes(2_500_000)
    ('999 B', '2.5 MB')
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    place = 0
    while count >= 1_000 and place < len(units) - 1:
        count, place = count / 1_000, place + 1
    return f"{count:,.1f} {units[place]}" if place else f"{count:,.0f} B"
