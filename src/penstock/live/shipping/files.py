"""Writes the Parquet files of a broker into the lake: whole and durable under a temporary name, then renamed.

A file is ``<table>/date=<day>/broker=<name>/<incarnation>-<sequence>.parquet``, so no two runs and no two batches ever
share one. Temporary files are in ``_staging/<broker>``, where readers do not look.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.live.shipping.arrow import arrow_schema
from penstock.live.shipping.cargo import Parcel
from penstock.model.lake_tables import LakeTable, escaped_value, partition_path

__all__ = ["LakeFiles", "StagedFile"]

_STAGING: Final = "_staging"
_PLAIN: Final = frozenset(("bits", "singletons", "place", "id_low"))
"""Columns whose values hardly ever repeat: dictionaries and statistics would be useless."""


@dataclass(slots=True, frozen=True)
class StagedFile:
    """A file that is whole and durable, but does not count yet."""

    path: str
    """Its temporary name; relative to the lake, as is ``place``."""
    place: str
    size: int


class LakeFiles:
    """Writes one broker's files in a lake. Each step with an effect is a method of its own, for tests to break."""

    def __init__(self, lake: Path, broker: str) -> None:
        self._lake, self._broker = lake.absolute(), broker
        self._staging = f"{_STAGING}/{escaped_value(broker)}"

    def place_of(self, parcel: Parcel, incarnation: int, sequence: int) -> str:
        """The final name of a parcel's file."""
        partition = partition_path(parcel.table, {"date": parcel.day, "broker": self._broker})
        return f"{parcel.table.name}/{partition}/{incarnation:013d}-{sequence:012d}.parquet"

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return (self._lake / path).exists()

    def stage(self, parcel: Parcel, incarnation: int, sequence: int) -> StagedFile:
        """Write a parcel as a file, durable under a temporary name."""
        place = self.place_of(parcel, incarnation, sequence)
        path = f"{self._staging}/{sequence:012d}-{parcel.table.name}-{parcel.day}.parquet"
        target = self._lake / path
        self._make_folders(target.parent)
        self._write(target, parcel, incarnation, sequence)
        self._sync(target)
        return StagedFile(path, place, target.stat().st_size)

    def make_names_durable(self) -> None:
        """Make sure that all staged files are still there after a crash."""
        self._sync_folder(self._lake / self._staging)

    def move(self, moves: Sequence[tuple[str, str]]) -> bool:
        """Give staged files their final names, durably; tells whether all are there, maybe from an earlier attempt."""
        folders: dict[Path, None] = {}
        for old, new in moves:
            source, target = self._lake / old, self._lake / new
            if source.exists():
                self._make_folders(target.parent)
                self._rename(source, target)
            elif not target.exists():
                return False
            folders[target.parent] = None
        for folder in folders:
            self._sync_folder(folder)
        return True

    def clear_staging(self, keep: Collection[str]) -> None:
        """Delete what failed attempts have left behind, except the files to ``keep``."""
        folder = self._lake / self._staging
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if f"{self._staging}/{path.name}" not in keep:
                self._unlink(path)

    def _make_folders(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_folders(folder.parent)
            folder.mkdir(exist_ok=True)
            self._sync_folder(folder.parent)

    def _write(self, path: Path, parcel: Parcel, incarnation: int, sequence: int) -> None:
        import pyarrow.parquet as pq

        names = [column.name for column in parcel.table.columns]
        telling: Any = True
        if not _PLAIN.isdisjoint(names):
            telling = [name for name in names if name not in _PLAIN]
        pq.write_table(
            _arrow_table(parcel, incarnation, sequence),
            path,
            compression="zstd",
            use_dictionary=telling,
            write_statistics=telling,
            # A flipped bit in a filter would give a wrong answer, and nothing else would detect it.
            write_page_checksum=True,
        )

    def _rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def _unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def _sync(self, path: Path) -> None:
        _sync(path, os.O_RDONLY)

    def _sync_folder(self, folder: Path) -> None:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _arrow_table(parcel: Parcel, incarnation: int, sequence: int) -> Any:
    import pyarrow as pa

    schema = arrow_schema(parcel.table)
    rows = dict(zip(parcel.names, zip(*parcel.rows, strict=True), strict=True)) if parcel.rows else None
    parts = []
    for columns in (*([rows] if rows else []), *parcel.blocks):
        count = len(next(iter(columns.values())))
        batch = {"incarnation": [incarnation] * count, "sequence": [sequence] * count}
        parts.append(pa.table({name: {**batch, **columns}[name] for name in _names(parcel.table)}, schema=schema))
    return pa.concat_tables(parts)


def _names(table: LakeTable) -> list[str]:
    return [column.name for column in table.columns]


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
