"""Merges many small files into a few large ones: decides which are due, and writes their rows into one.

Files of similar size are merged, several at a time, so that each row is rewritten once per size class and not once per
batch. A day that its pubend has passed gets no more rows: its remaining small files are merged at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import LakeTable
from penstock.pipeline.lake.errors import LakeError
from penstock.pipeline.lake.store import TableStore
from penstock.pipeline.lake.writing import RowGroups

__all__ = ["CompactionPolicy", "Compactor", "due_groups", "merge_files"]

_CLASS_BYTES: Final = 64 * 1024
_CLASS_FACTOR: Final = 8
_STAGED_NAME: Final = "compaction"


@dataclass(slots=True, frozen=True)
class CompactionPolicy:
    """When files are merged."""

    files_min: int = 8
    """How many small files of similar size in one partition trigger a merge."""
    target_bytes: int = 128 * 1024 * 1024
    """No file grows much larger than this, and a file of half this size is not small."""
    keep_ms: int = 0
    """How long merged inputs stay beside the new file, for jobs that already read them."""

    def __post_init__(self) -> None:
        if self.files_min < 2:
            raise MisuseError(f"files_min is {self.files_min}, but at least 2 files are needed to merge some")
        if self.target_bytes < 1 or self.keep_ms < 0:
            raise MisuseError(f"target_bytes {self.target_bytes} must be positive, keep_ms {self.keep_ms} not negative")


def due_groups(files: Mapping[str, int], policy: CompactionPolicy) -> Iterator[list[str]]:
    """Yield the files of each due merge, given their sizes by path; a merge's output may become due again.

    >>> list(due_groups({f"t/date=2026-11-15/pubend=q/b{n}": 10 for n in range(3)}, CompactionPolicy(files_min=3)))
    [['t/date=2026-11-15/pubend=q/b0', 't/date=2026-11-15/pubend=q/b1', 't/date=2026-11-15/pubend=q/b2']]
    """
    partitions: dict[str, dict[str, int]] = {}
    for path, size in sorted(files.items()):
        if size < policy.target_bytes // 2:
            partitions.setdefault(path.rpartition("/")[0], {})[path] = size
    newest = _newest(files)
    for folder, small in partitions.items():
        if folder < newest[_without_date(folder)]:
            yield from _groups(small, 2, policy)
        else:
            for alike in _alike(small).values():
                yield from _groups(alike, policy.files_min, policy)


def merge_files(inputs: list[Path], output: Path, table: LakeTable) -> int:
    """Write the rows of several files into one, ordered by first tick, durably; returns the number of rows."""
    expected = 0
    with RowGroups(output, table) as merged:
        for path in sorted(inputs, key=_first_tick):
            with pq.ParquetFile(path) as source:
                expected += source.metadata.num_rows
                for group in range(source.num_row_groups):
                    merged.add(source.read_row_group(group).cast(merged.schema))
    assert merged.rows == expected, f"{expected} rows became {merged.rows}"
    return merged.rows


class Compactor:
    """Runs the due merges of a table; unreadable files are left alone, and reported once."""

    def __init__(self, store: TableStore, policy: CompactionPolicy) -> None:
        self._store, self._policy = store, policy
        self.merges = 0
        self.unreadable: dict[str, str] = {}
        """Files left alone, with the reason."""

    def run(self, *, before_batch: int, now_ms: int, merges_max: int = 64) -> int:
        """Merge files of batches below a number, as long as merges are due; returns the number of merges."""
        store, done = self._store, 0
        store.sweep(now_ms=now_ms, keep_ms=self._policy.keep_ms)
        while done < merges_max and store.may_compact and (group := self._next(before_batch)) is not None:
            if self._merge(group, now_ms):
                done += 1
        self.merges += done
        return done

    def _next(self, before_batch: int) -> list[str] | None:
        held = f"b{before_batch:012d}"
        files = {
            path: size
            for path, size in self._store.current().items()
            if path not in self.unreadable and _is_before(path, held)
        }
        return next(due_groups(files, self._policy), None)

    def _merge(self, group: list[str], now_ms: int) -> bool:
        files = self._store.files
        folder = self._store.staging(_STAGED_NAME)
        staged = f"{folder}/merged.parquet"
        readable = [path for path in group if self._is_readable(path)]
        if len(readable) < len(group):
            return False
        try:
            merge_files([Path(files.location(path)) for path in group], Path(files.location(staged)), self._store.table)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            self.unreadable |= dict.fromkeys(group, _first_line(error))
            return False
        except OSError as error:
            raise LakeError(f"cannot merge files of {files.location(self._store.table.name)}: {error}") from None
        self._store.compact(group, staged, now_ms=now_ms, keep_ms=self._policy.keep_ms)
        return True

    def _is_readable(self, path: str) -> bool:
        try:
            _first_tick(Path(self._store.files.location(path)))
        except (pa.ArrowInvalid, OSError) as error:
            self.unreadable[path] = _first_line(error)
            return False
        return True


def _is_before(path: str, held: str) -> bool:
    """Whether a file is merged or of an earlier batch; batch names sort by number, merged ones start differently."""
    name = path.rpartition("/")[2]
    return not name.startswith("b") or name < held


def _groups(small: Mapping[str, int], files_min: int, policy: CompactionPolicy) -> Iterator[list[str]]:
    group: list[str] = []
    total = 0
    for path, size in small.items():
        if total + size > policy.target_bytes:
            if len(group) >= files_min:
                yield group
            group, total = [], 0
        group.append(path)
        total += size
    if len(group) >= files_min:
        yield group


def _alike(files: Mapping[str, int]) -> dict[int, dict[str, int]]:
    """Group files by size class."""
    classes: dict[int, dict[str, int]] = {}
    for path, size in files.items():
        number = 0
        while size >= _CLASS_BYTES * _CLASS_FACTOR**number:
            number += 1
        classes.setdefault(number, {})[path] = size
    return classes


def _newest(files: Mapping[str, int]) -> dict[str, str]:
    """The newest folder for each folder name without its date."""
    newest: dict[str, str] = {}
    for path in files:
        folder = path.rpartition("/")[0]
        place = _without_date(folder)
        newest[place] = max(newest.get(place, ""), folder)
    return newest


def _without_date(folder: str) -> str:
    return "/".join(part for part in folder.split("/") if not part.startswith("date="))


def _first_tick(path: Path) -> int:
    """The first tick by the file's own statistics; files without ticks compare equal."""
    with pq.ParquetFile(path) as source:
        names = source.schema_arrow.names
        if "tick" not in names or not source.num_row_groups:
            return 0
        statistics = source.metadata.row_group(0).column(names.index("tick")).statistics
        return int(statistics.min) if statistics is not None and statistics.has_min_max else 0


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
