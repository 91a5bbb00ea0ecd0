"""Writes the batches of a stream to the table: each exactly once, however often Spark replays it.

Spark's tasks write rows into a staging folder of this batch and run; the driver commits them all at once
(``lake.store``). A batch that Spark replays because its own checkpoint missed the end is already committed, and is not
even computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.model.errors import PenstockError
from penstock.pipeline.archive.checkpoint import Checkpoint
from penstock.pipeline.lake.compaction import Compactor
from penstock.pipeline.lake.store import TableStore
from penstock.pipeline.lake.writing import PUBLISHED_COLUMNS, STAGED_SCHEMA, staged_file, write_publications

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ArchiveSink", "SinkClosedError", "SinkTotals"]


class SinkClosedError(PenstockError):
    """A batch arrived after the archive was asked to stop; the next start gets it again."""


@dataclass(slots=True)
class SinkTotals:
    """Totals of this run of an archive."""

    batches: int = 0
    repeated: int = 0
    """Batches that were already committed."""
    rows: int = 0
    files: int = 0
    bytes: int = 0


class ArchiveSink:
    """The callback that Spark calls with every batch."""

    def __init__(self, store: TableStore, checkpoint: Checkpoint, compactor: Compactor) -> None:
        self._store, self._checkpoint, self._compactor = store, checkpoint, compactor
        self._life = uuid4().hex
        self._turn = threading.Lock()
        self._is_closed = False
        self.totals = SinkTotals()
        self.failure: Exception | None = None
        """Why the last batch failed, if it did."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Archive a batch."""
        with self._turn:
            if self._is_closed:
                raise SinkClosedError(f"batch {number} comes after the end")
            try:
                self._take(frame, number)
            except Exception as error:
                self.failure = error
                raise

    def close(self, timeout_s: float) -> bool:
        """Stop accepting batches; waits up to the timeout for the current one, and returns whether it has finished."""
        self._is_closed = True
        is_over = self._turn.acquire(timeout=timeout_s)
        if is_over:
            self._turn.release()
        return is_over

    def _take(self, frame: DataFrame, number: int) -> None:
        offsets = self._checkpoint.offsets_digest(number)
        totals, store = self.totals, self._store
        if store.has(number, offsets):
            totals.repeated += 1
            return
        folder = store.staging(f"{self._life}-{number}")
        place = store.files.location(folder)

        def write(batches: Iterator[Any]) -> Iterator[Any]:
            return write_publications(batches, folder, place)

        rows = frame.select(*PUBLISHED_COLUMNS).mapInArrow(write, STAGED_SCHEMA).collect()
        staged = [staged_file(row) for row in rows]
        store.publish(number, staged, offsets)
        store.files.clear(folder)
        totals.batches += 1
        totals.rows += sum(each.rows for each in staged)
        totals.files += len(staged)
        totals.bytes += sum(each.size for each in staged)
        # Spark starts a batch only once its checkpoint has the earlier ones: this one may still be replayed.
        self._compactor.run(before_batch=number, now_ms=time.time_ns() // 1_000_000)
