"""Commits staged rows, a whole batch at once, and publishes them exactly once, whatever is killed when.

1. The journal names the files of the batch: it is **committed**. After a kill before this, nothing has happened; Spark
   replays the batch.
2. Its rows are published under their numbers, which count for each pubend. After a kill here, the next run publishes
   the rest; a pubend deduplicates rows by writer and number.
3. The journal says that the batch is settled, and its files are deleted. Spark may replay it: a batch whose number is
   not above the last is skipped.

A batch is committed only when a broker is connected that knows all its pubends: a row for a pubend that does not exist
could never be published, and would block everything behind it.

A pubend remembers a writer's last number for a day after its last message. Rows in flight longer ago than that might
be duplicated: they are refused, unless the user decides otherwise.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from hashlib import blake2b
from itertools import islice
from typing import Final, Protocol

import msgspec

from penstock.pipeline.lake.errors import LakeBusyError
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.journal import (
    NAMES_MAX,
    CountedBatch,
    SinkJournal,
    load_journal,
    read_journal,
    save_journal,
)
from penstock.pipeline.sink.options import Forgotten
from penstock.pipeline.sink.publishing import Writer
from penstock.pipeline.sink.staging import Row, Staged, StagedRows, read_rows

__all__ = ["BATCH_FOLDER", "REMEMBERED_MS", "STREAM_FOLDER", "Committer", "Publishing", "identity_of"]

STREAM_FOLDER: Final = "staged/stream"
BATCH_FOLDER: Final = "staged/batch"
REMEMBERED_MS: Final = 23 * 3_600_000
"""Brokers remember a publisher for a day after its last message; one hour is the margin for clock differences."""
_CHUNK_ROWS: Final = 1_024
_CHUNK_BYTES: Final = 128 * 1024
_NOTE_EVERY_MS: Final = 1_000
_LOCK_PAUSE_S: Final = 0.1


class Publishing(Protocol):
    """A connection to a broker of the overlay, under the writer's identity."""

    overlay: str

    def publish(self, rows: Sequence[Row]) -> None:
        """Publish rows under the next numbers of their pubends; returns once all are durable."""
        ...


Opening = Callable[[Writer], AbstractContextManager[Publishing]]
"""Connects as a writer, to a broker that knows all its pubends."""


class Committer:
    """Commits the batches of one staging folder."""

    def __init__(
        self,
        files: LocalFiles,
        pubend: str,
        opening: Opening,
        *,
        forgotten: Forgotten = "fail",
        lock_s: float = 30.0,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._files, self._pubend, self._opening = files, pubend, opening
        self._forgotten, self._lock_s, self._now_ms = forgotten, lock_s, now_ms

    def commit_stream(self, number: int, staged: Sequence[Staged]) -> None:
        """Publish a batch of a stream, unless it or a later one is already committed."""
        query = next((each.query for each in staged if each.query), "")
        with self._locked():
            journal = self._published(self._of_query(load_journal(self._files, self._pubend), query))
            if number > journal.stream:
                counted = self._counted(journal, staged, CountedBatch(number=number))
                self._publish(msgspec.structs.replace(counted, query=query or journal.query, stream=number))
            # Any task of this stream that still runs is one that nobody waits for.
            self._files.clear(STREAM_FOLDER)

    def commit_batch(self, name: str, staged: Sequence[Staged]) -> None:
        """Publish a batch write, unless one with this name is already committed; without a name, always publish."""
        with self._locked():
            journal = self._published(load_journal(self._files, self._pubend))
            if not name or name not in journal.names:
                counted = self._counted(journal, staged, CountedBatch(name=name))
                names = (*journal.names, name)[-NAMES_MAX:] if name else journal.names
                self._publish(msgspec.structs.replace(counted, names=names))
            self.discard(staged)

    def discard(self, staged: Sequence[Staged]) -> None:
        """Delete files, except those of a committed batch that is not published yet, which Spark may abort as well."""
        journal = read_journal(self._files)
        needed = set() if journal is None or journal.batch.is_settled else {file.path for file in journal.batch.files}
        for each in staged:
            if each.file.path in needed:
                continue
            with suppress(OSError):
                (self._files.root / each.file.path).unlink()

    def _of_query(self, journal: SinkJournal, query: str) -> SinkJournal:
        if query and journal.query and query != journal.query:
            raise SinkOptionError(
                f"the staging folder {self._files.root} belongs to another streaming query ({journal.query}), or this "
                f"query's checkpoint was lost ({query}): its batch numbers restart, and its batches would be skipped "
                "as already published"
            )
        return journal

    def _counted(self, journal: SinkJournal, staged: Sequence[Staged], batch: CountedBatch) -> SinkJournal:
        """The journal with a new batch, whose files and number of rows are filled in."""
        files = tuple(each.file for each in staged if each.file.rows)
        self._files.sync_names([each.path for each in files])
        rows = sum(each.rows for each in files)
        counted = msgspec.structs.replace(batch, rows=rows, touched_ms=self._now_ms(), files=files)
        published = Counter(journal.published) + _rows_by_pubend(journal.batch.files)
        return msgspec.structs.replace(journal, batch=counted, published=dict(published))

    def _published(self, journal: SinkJournal) -> SinkJournal:
        """Publish the rest of a committed batch that an earlier run left unsettled."""
        if journal.problem:
            raise SinkError(f"{journal.problem}; begin with another staging folder and checkpoint")
        if journal.batch.is_settled:
            return journal
        age_ms = self._now_ms() - journal.batch.touched_ms
        if age_ms > REMEMBERED_MS and self._forgotten == "fail":
            left = journal.batch.rows - journal.batch.settled
            raise SinkError(
                f"{left:,} rows were in flight {age_ms / 3_600_000:.0f} hours ago, and the broker may have forgotten "
                "which of them it has: check, then set option forgotten=publish or use another staging folder"
            )
        return self._publish(journal)

    def _publish(self, journal: SinkJournal) -> SinkJournal:
        """Commit the batch, and publish its rows that are not settled."""
        batch = journal.batch
        if batch.is_settled:
            return save_journal(self._files, journal)
        rows = self._rows(batch.files)
        settled = Counter(row.pubend for row in islice(rows, batch.settled))
        left = _rows_by_pubend(batch.files) - settled
        published = {pubend: journal.published.get(pubend, 0) + settled[pubend] for pubend in left}
        with self._opening(Writer(identity_of(journal), journal.overlay, published)) as publishing:
            journal = save_journal(self._files, msgspec.structs.replace(journal, overlay=publishing.overlay))
            journal = self._send(journal, rows, publishing)
        return save_journal(self._files, journal)

    def _send(self, journal: SinkJournal, rows: Iterator[Row], publishing: Publishing) -> SinkJournal:
        """Publish the rows that are left of the batch, and note the progress now and then."""
        batch, noted_ms = journal.batch, self._now_ms()
        settled = batch.settled
        for chunk in _chunks(rows):
            publishing.publish(chunk)
            settled += len(chunk)
            now_ms = self._now_ms()
            progress = msgspec.structs.replace(batch, settled=settled, touched_ms=now_ms)
            journal = msgspec.structs.replace(journal, batch=progress)
            if now_ms - noted_ms >= _NOTE_EVERY_MS:
                journal, noted_ms = save_journal(self._files, journal), now_ms
        return journal

    def _rows(self, files: Sequence[StagedRows]) -> Iterator[Row]:
        for each in files:
            yield from read_rows(self._files.root, each)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock; waits for an earlier run whose process has not exited yet."""
        deadline_s = time.monotonic() + self._lock_s
        with ExitStack() as held:
            while True:
                try:
                    held.enter_context(self._files.lock("_lock", "the staging folder"))
                    break
                except LakeBusyError:
                    if time.monotonic() > deadline_s:
                        raise
                time.sleep(_LOCK_PAUSE_S)
            yield


def identity_of(journal: SinkJournal) -> bytes:
    """The identity under which pubends know a writer."""
    return blake2b(f"{journal.writer}/{journal.pubend}".encode(), digest_size=16).digest()


def _rows_by_pubend(files: Sequence[StagedRows]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in files:
        found.update(each.pubends)
    return found


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Split rows into chunks that fit one frame."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        message = row.message
        size_next = len(message.payload) + sum(
            len(name) + len(str(value)) for name, value in message.attributes.items()
        )
        if chunk and (len(chunk) >= _CHUNK_ROWS or size + size_next > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += size_next
    if chunk:
        yield chunk
