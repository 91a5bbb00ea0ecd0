"""Deletes old days of a lake and records what is no longer known: a trace must not deny what was deleted.

Only tables whose rows belong to their day for good can lose days: messages, histories, records, aliases and telemetry.
Attachments, gaps, links and positions stay, since they describe times other than their own day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import ALIASES, HISTORIES, PUBLICATIONS, RECORDS, TELEMETRY, LakeTable, find_table
from penstock.pipeline.lake.care import check_file, partition_of
from penstock.pipeline.lake.errors import LakeError
from penstock.pipeline.lake.files import LocalFiles, files_at
from penstock.pipeline.lake.journal import snapshot

__all__ = ["RETAINED", "Known", "Retained", "load_known", "retain_days"]

RETAINED: Final = (PUBLICATIONS, HISTORIES, RECORDS, ALIASES, TELEMETRY)
"""Tables that may lose days."""

_PLACE: Final = "_retention.json"
_FORMAT: Final = 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Known(msgspec.Struct):
    """When a lake's knowledge begins, in milliseconds by broker; brokers not named here have lost nothing."""

    format: int = _FORMAT
    filters: dict[str, int] = {}
    aliases: dict[str, int] = {}
    publications: int = 0


class Retained(msgspec.Struct):
    """Files that were deleted, or would be."""

    before: str
    """The first day that is kept."""
    files: dict[str, int] = {}
    """Number of files by table."""
    size_bytes: int = 0
    is_done: bool = True
    """False for a dry run."""

    def line(self) -> str:
        """One line for people."""
        told = ", ".join(f"{count:,} of {name}" for name, count in self.files.items()) or "none"
        verb = "deleted" if self.is_done else "to be deleted"
        return f"files of days before {self.before} {verb}: {told} ({self.size_bytes:,} bytes)"


def load_known(files: LocalFiles) -> Known:
    """Load the record of what was deleted from a lake so far."""
    content = files.read(_PLACE)
    if content is None:
        return Known()
    try:
        known = msgspec.json.decode(content, type=Known)
    except msgspec.DecodeError as error:
        raise LakeError(f"{files.location(_PLACE)} is damaged: {error}") from None
    if known.format != _FORMAT:
        raise LakeError(f"{files.location(_PLACE)} is of format {known.format}; this Penstock knows format {_FORMAT}")
    return known


def retain_days(lake: str, before: date, *, tables: Sequence[str] = (), dry_run: bool = False) -> Retained:
    """Delete the files of days before a date; first records what is lost, so that a crash does no harm."""
    files = files_at(lake)
    if not files.root.is_dir():
        raise MisuseError(f"there is no lake at {lake!r}: no such folder")
    chosen = [_retained_table(name) for name in tables] or list(RETAINED)
    result = Retained(before.isoformat(), is_done=not dry_run)
    for table in chosen:
        with files.lock(f"{table.name}/_lock", f"the table {table.name}"):
            old = {path: size for path, size in snapshot(files, table).items() if _is_old(path, before)}
            if old:
                result.files[table.name] = len(old)
                result.size_bytes += sum(old.values())
            if old and not dry_run:
                _note(files, table, old, before)
                files.delete(sorted(old))
    return result


def _retained_table(name: str) -> LakeTable:
    table = find_table(name)
    if table not in RETAINED:
        raise MisuseError(f"table {name!r} cannot lose days; those that can are {', '.join(t.name for t in RETAINED)}")
    return table


def _is_old(path: str, before: date) -> bool:
    day = partition_of(path, "date")
    return day is not None and day < before.isoformat()


def _note(files: LocalFiles, table: LakeTable, paths: Iterable[str], before: date) -> None:
    known = load_known(files)
    end_ms = (datetime(before.year, before.month, before.day, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    if table is PUBLICATIONS:
        known.publications = max(known.publications, end_ms)
    for path in paths if table in (HISTORIES, RECORDS, ALIASES) else ():
        broker = partition_of(path, "broker") or ""
        since = known.aliases if table is ALIASES else known.filters
        last_ms = _last_ms(Path(files.location(path)), table) if table is not ALIASES else end_ms
        since[broker] = max(since.get(broker, 0), last_ms + 1)
    files.write(_PLACE, msgspec.json.encode(known))


def _last_ms(path: Path, table: LakeTable) -> int:
    """The last timestamp that a file may cover; a filter may stay open past its day."""
    _, _, problem = check_file(path, table)
    if problem:
        # Unknown: assume the longest time a filter may stay open.
        return _day_ms(path) + 2 * 86_400_000
    with pq.ParquetFile(path) as file:
        if table is RECORDS:
            lows = file.read(["id_low"]).column(0).to_pylist()
            return max(((low % 2**64) >> 16 for low in lows), default=0)
        added = file.read(["added_at"]).column(0).to_pylist()
    return max(((each - _EPOCH) // timedelta(milliseconds=1) for each in added), default=0)


def _day_ms(path: Path) -> int:
    day = partition_of(path.as_posix(), "date") or "1970-01-01"
    return (datetime.fromisoformat(f"{day}T00:00:00+00:00") - _EPOCH) // timedelta(milliseconds=1)
