"""Runs an archive: copies a stream of publications into the lake's table until it completes, is interrupted, or fails.

However it ends, even by kill -9 at any point, the next start resumes after the last committed batch (``lake.journal``),
with nothing duplicated or missing. An interrupt lets the current batch finish if that does not take long, and otherwise
aborts it.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.model.lake_tables import PUBLICATIONS
from penstock.model.reporting import Reporter
from penstock.pipeline.archive.checkpoint import Checkpoint
from penstock.pipeline.archive.failures import ArchiveError, telling
from penstock.pipeline.archive.settings import ArchiveSettings
from penstock.pipeline.archive.sink import ArchiveSink
from penstock.pipeline.archive.summary import ArchiveSummary
from penstock.pipeline.lake.compaction import Compactor
from penstock.pipeline.lake.files import LocalFiles, files_at
from penstock.pipeline.lake.store import TableStore
from penstock.pipeline.session import SessionSettings, using_session
from penstock.session.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Archive", "archive_stream", "overlay_of", "run_archive", "stop_signals"]

_LOOK_S: Final = 1
_BATCH_S_MAX: Final = 8.0
"""How long an interrupt waits for the current batch."""


def run_archive(
    settings: ArchiveSettings, session: SessionSettings, reporter: Reporter, *, show_every_s: float = 1.0
) -> tuple[ArchiveSummary, signal.Signals | None]:
    """Archive a stream until it completes or a signal arrives; returns the summary and that signal."""
    # Py4J logs why a batch failed, with a trace; we report it in one line.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    reporter.stage(f"asking {settings.broker} for its overlay")
    overlay = overlay_of(settings)
    with Archive.opened(settings, overlay, show_every_s=show_every_s) as archive:
        if archive.start != settings.start:
            reporter.note(f"the archive began at {archive.start}; it resumes where it stopped, and --from is ignored")
        reporter.stage(f"starting Spark on {session.master}")
        with using_session(session) as spark, stop_signals() as noted:
            summary = archive.run(archive_stream(spark, settings), reporter, lambda: noted() is not None)
            return summary, noted()


class Archive:
    """One run of an archive, which holds the lock of its table; create it with ``with Archive.opened(...)``."""

    def __init__(
        self, files: LocalFiles, settings: ArchiveSettings, overlay: str, *, show_every_s: float = 1.0
    ) -> None:
        self._files, self._settings = files, settings
        self._checkpoint = Checkpoint(files, PUBLICATIONS)
        self._store = TableStore(files, PUBLICATIONS)
        is_new = self._checkpoint.is_new
        identity = self._checkpoint.open(overlay, settings.canonical_selector, settings.start)
        self._store.open(identity.stream, is_new=is_new)
        self.is_new: Final = is_new
        self.start: Final = identity.start
        self._compactor = Compactor(self._store, settings.compaction)
        self._sink = ArchiveSink(self._store, self._checkpoint, self._compactor)
        self._started_s = time.monotonic()
        self._show_every_s = show_every_s
        self._lag_s: float | None = None

    @classmethod
    @contextmanager
    def opened(cls, settings: ArchiveSettings, overlay: str, *, show_every_s: float = 1.0) -> Iterator[Archive]:
        """Open the archive of a lake under an exclusive lock; repairs what an earlier run left unfinished."""
        files = files_at(settings.lake)
        with files.lock(f"{PUBLICATIONS.name}/_lock", f"the table {PUBLICATIONS.name}"):
            yield cls(files, settings, overlay, show_every_s=show_every_s)

    def run(
        self, frame: DataFrame, reporter: Reporter, should_stop: Callable[[], bool] = lambda: False
    ) -> ArchiveSummary:
        """Archive the stream to its end."""
        writer = frame.writeStream.foreachBatch(self._sink).option(
            "checkpointLocation", self._checkpoint.spark_location
        )
        with telling():
            query = self._settings.triggered(writer.queryName("penstock archive")).start()
        is_complete = False
        try:
            is_complete = self._watch(query, reporter, should_stop)
        finally:
            self._stop(query)
        if is_complete:
            # The stream has ended: its checkpoint knows all its batches.
            self._compactor.run(before_batch=self._store.journal.batch.number + 1, now_ms=time.time_ns() // 1_000_000)
        for path, why in self._compactor.unreadable.items():
            reporter.note(f"not merged, since it cannot be read: {self._files.location(path)}: {why}")
        return self.summary(is_complete=is_complete)

    def summary(self, *, is_complete: bool = False) -> ArchiveSummary:
        """Summarise the work done so far."""
        totals, table = self._sink.totals, self._store.current()
        return ArchiveSummary(
            lake=str(self._files.root),
            rows=totals.rows,
            files=totals.files,
            bytes=totals.bytes,
            batches=totals.batches,
            repeated=totals.repeated,
            merges=self._compactor.merges,
            table_files=len(table),
            table_bytes=sum(table.values()),
            lag_s=self._lag_s,
            seconds=round(time.monotonic() - self._started_s, 3),
            is_complete=is_complete,
        )

    def _watch(self, query: StreamingQuery, reporter: Reporter, should_stop: Callable[[], bool]) -> bool:
        """Report progress until the stream ends or is told to stop; returns whether it ended by itself."""
        line = _Line(reporter, self._show_every_s)
        while not should_stop():
            with telling(lambda: self._sink.failure):
                is_over = query.awaitTermination(_LOOK_S)
            with telling():
                self._lag_s = _lag_s(query.lastProgress, self._lag_s)
            line.show(self._sink.totals.rows, self._lag_s, time.monotonic())
            if is_over:
                return True
        reporter.note("stopping; waiting briefly for the current batch")
        return False

    def _stop(self, query: StreamingQuery) -> None:
        self._sink.close(_BATCH_S_MAX)
        # It may have failed because the sink refused a batch, or Java may be gone: the next start recovers from either.
        with suppress(Exception):
            query.stop()
        self._sink.close(_BATCH_S_MAX)


def overlay_of(settings: ArchiveSettings) -> str:
    """Ask the broker for its overlay's name; also checks the source's options, without starting Spark."""
    from penstock.pipeline.source.link import opened
    from penstock.pipeline.source.options import parse_options

    options = parse_options(settings.source_options())
    try:
        with opened(options.connecting) as client:
            return client.status().overlay
    except ClientError as error:
        raise ArchiveError(str(error)) from None


def archive_stream(spark: SparkSession, settings: ArchiveSettings) -> DataFrame:
    """The stream of publications that the settings ask for."""
    with telling():
        return spark.readStream.format("penstock").options(**settings.source_options()).load()


@contextmanager
def stop_signals() -> Iterator[Callable[[], signal.Signals | None]]:
    """Within the block, the first Ctrl-C or SIGTERM is only noted; a second Ctrl-C interrupts as usual."""
    noted: list[signal.Signals] = []

    def note(number: int, _frame: Any) -> None:
        noted.append(signal.Signals(number))
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    former = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: noted[0] if noted else None
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


class _Line:
    """A line about rows, lag and rate, shown at most every so often."""

    def __init__(self, reporter: Reporter, every_s: float) -> None:
        self._reporter, self._every_s = reporter, every_s
        self._shown_s: float | None = None
        self._shown_rows = 0

    def show(self, rows: int, lag_s: float | None, now_s: float) -> None:
        rate = 0.0 if self._shown_s is None else (rows - self._shown_rows) / max(now_s - self._shown_s, 1e-3)
        if self._shown_s is not None and now_s - self._shown_s < self._every_s:
            return
        lag = "" if lag_s is None else f", lag {lag_s:,.1f} s"
        self._reporter.stage(f"{rows:,} rows archived{lag}, {rate:,.0f} rows/s")
        self._shown_s, self._shown_rows = now_s, rows


def _lag_s(progress: Any, former: float | None) -> float | None:
    """Lag of the pubend that is farthest behind, in seconds; the former value if the stream cannot tell."""
    if progress is None:
        return former
    from penstock.pipeline.source import lag_of

    # Sources other than ours have offsets of another form.
    with suppress(ValueError, TypeError, AttributeError):
        lags = [lag for lag in lag_of(progress).values() if lag is not None]
        return max(lags) / 1_000 if lags else former
    return former
