"""Lakes for tests: rows in staged files, disks that fail at a chosen step, and what readers find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.lake_tables import PUBLICATIONS
from penstock.model.tick import tick_at
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.lake.journal import snapshot
from penstock.pipeline.lake.store import StagedFile, TableStore
from penstock.pipeline.lake.writing import write_publications

DAY_MS = 86_400_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
"""2024-10-04, noon."""
DATE = "2024-10-04"


def batch_of(numbers: Iterable[int], *, pubend: str = "q", days: int = 0) -> Any:
    """Publications whose ticks carry these numbers."""
    numbered = list(numbers)
    columns = {
        "message_id": pa.array([f"id-{pubend}-{number}" for number in numbered]),
        "pubend": pa.array([pubend] * len(numbered)),
        "tick": pa.array([tick_at(NOON_MS + days * DAY_MS, number) for number in numbered], pa.int64()),
        "published_at": pa.array(numbered, pa.timestamp("us", tz="Etc/UTC")),
        "attributes": pa.array([[("n", str(number))] for number in numbered], pa.map_(pa.string(), pa.string())),
        "payload": pa.array([bytes(3)] * len(numbered), pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def staged(store: TableStore, *batches: Any, name: str = "life") -> list[StagedFile]:
    """The files that a task would write of these rows."""
    folder = store.staging(name)
    (told,) = write_publications(batches, folder, store.files.location(folder))
    return [StagedFile(**row) for row in told.to_pylist()]


def ids_in(files: LocalFiles, paths: Iterable[str]) -> Counter[str]:
    """How often each message is in some files."""
    found: Counter[str] = Counter()
    for path in paths:
        found.update(pq.ParquetFile(files.location(path)).read(["message_id"]).column(0).to_pylist())
    return found


def ids(files: LocalFiles) -> Counter[str]:
    """What readers find."""
    return ids_in(files, snapshot(files, PUBLICATIONS))


def expected(*numbers: int, pubend: str = "q") -> Counter[str]:
    return Counter(f"id-{pubend}-{number}" for number in numbers)


class Crash(BaseException):
    """The process ends here: no handler may notice."""


class BreakingFiles(LocalFiles):
    """Files of a process that ends before its n-th step, or right after it; or that are looked at between all steps."""

    def __init__(self, root: Path, *, steps: int | None = None, on_step: Callable[[], None] | None = None) -> None:
        super().__init__(root)
        self.left = steps
        self.on_step = on_step
        self.story: list[str] = []

    def _step(self, what: str, path: Path) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Crash
            self.left -= 1
        if self.on_step is not None:
            self.on_step()
        self.story.append(f"{what} {path.name}")

    def _write_synced(self, path: Path, content: bytes) -> None:
        self._step("write", path)
        super()._write_synced(path, content)

    def _rename(self, source: Path, target: Path) -> None:
        self._step("rename", target)
        super()._rename(source, target)

    def _unlink(self, path: Path) -> None:
        self._step("unlink", path)
        super()._unlink(path)

    def _sync_folder(self, folder: Path) -> None:
        self._step("sync", folder)
        super()._sync_folder(folder)
