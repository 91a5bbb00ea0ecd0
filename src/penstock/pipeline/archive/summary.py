"""What an archive has done and how far behind it is, for people and for programs."""

from __future__ import annotations

import msgspec

__all__ = ["ArchiveSummary", "shown_bytes"]


class ArchiveSummary(msgspec.Struct, frozen=True):
    """One life of an archive, up to a moment."""

    lake: str
    rows: int
    """Archived in this life."""
    files: int
    """Written in this life, before merging."""
    bytes: int
    batches: int
    repeated: int
    """Batches that an earlier life had archived, and that Spark did not know of."""
    merges: int
    table_files: int
    """That count now, of all lives."""
    table_bytes: int
    lag_s: float | None
    """How far the archive is behind what was published last; none if the source does not say."""
    seconds: float
    is_complete: bool
    """Whether all was archived that there was at the start: only if it was asked to end there."""

    def to_json(self) -> str:
        """As JSON text, indented, fields in this order."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def line(self) -> str:
        """In one line."""
        lag = "" if self.lag_s is None else f", lag {self.lag_s:,.1f} s"
        written, there = shown_bytes(self.bytes), shown_bytes(self.table_bytes)
        return (
            f"{self.rows:,} rows archived in {self.files:,} files of {written}, {self.batches:,} batches, "
            f"{self.merges:,} merges{lag}; the table has {self.table_files:,} files of {there}"
        )


def shown_bytes(count: float) -> str:
    """A number of bytes as people read it.

    >>> shown_bytes(999), shown_bytes(2_500_000)
    ('999 B', '2.5 MB')
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    place = 0
    while count >= 1_000 and place < len(units) - 1:
        count, place = count / 1_000, place + 1
    return f"{count:,.1f} {units[place]}" if place else f"{count:,.0f} B"
