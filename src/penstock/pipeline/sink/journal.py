"""The journal of a sink: one small file, replaced atomically, that says which rows are committed and published.

Rows are *committed* when the journal names their files. From then on they have numbers, in the order of files and rows,
which never change: with the writer's identity, a number lets a broker deduplicate. *Settled* rows are on a broker's
disk. The next run publishes the rest of a batch that is committed but not settled.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

import msgspec

from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.staging import StagedRows

__all__ = ["JOURNAL", "NAMES_MAX", "CountedBatch", "SinkJournal", "load_journal", "save_journal"]

JOURNAL: Final = "journal.json"
NAMES_MAX: Final = 1_000
"""How many names of batch writes are remembered, the latest ones."""
_FORMAT: Final = 1


class CountedBatch(msgspec.Struct, frozen=True):
    """The last committed batch."""

    number: int = -1
    """Spark's number of a streaming batch; -1 for a batch write."""
    name: str = ""
    """Name of a batch write."""
    first: int = 1
    """The number of its first row among all that this writer has published."""
    rows: int = 0
    settled: int = 0
    """How many of its rows, in order, the broker has durably."""
    touched_ms: int = 0
    """When ``settled`` was recorded."""
    files: tuple[StagedRows, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether the broker has all of its rows."""
        return self.settled >= self.rows


class SinkJournal(msgspec.Struct, frozen=True):
    """What a writer has published and is publishing."""

    format: int
    writer: str
    """The identity of the writer, generated once."""
    pubend: str
    overlay: str = ""
    """Name of the overlay, known from the first connection on."""
    query: str = ""
    """The streaming query whose batches these are; empty for batch writes."""
    stream: int = -1
    """The last committed batch of that query."""
    sequence: int = 0
    """Increases with every change."""
    batch: CountedBatch = CountedBatch()
    names: tuple[str, ...] = ()
    """Names of committed batch writes."""
    problem: str = ""
    """Why nothing more may be published; empty if there is no problem."""

    @classmethod
    def fresh(cls, pubend: str) -> SinkJournal:
        """The journal of a writer that has published nothing."""
        return cls(_FORMAT, uuid4().hex, pubend)


def load_journal(files: LocalFiles, pubend: str) -> SinkJournal:
    """Load the journal of a staging folder, which must be for this pubend; a fresh one if there is none."""
    content = files.read(JOURNAL)
    if content is None:
        return SinkJournal.fresh(pubend)
    place = files.location(JOURNAL)
    try:
        journal = msgspec.json.decode(content, type=SinkJournal)
    except msgspec.DecodeError as error:
        raise SinkError(f"the journal {place} is damaged: {error}") from None
    if journal.format != _FORMAT:
        raise SinkOptionError(f"the journal {place} is of format {journal.format}; this Penstock has {_FORMAT}")
    if journal.pubend != pubend:
        raise SinkOptionError(
            f"the staging folder {files.root} is of pubend {journal.pubend!r}, not of {pubend!r}: "
            "give each pubend a folder of its own"
        )
    return journal


def save_journal(files: LocalFiles, journal: SinkJournal) -> SinkJournal:
    """Replace the journal durably; returns it as saved."""
    saved = msgspec.structs.replace(journal, sequence=journal.sequence + 1)
    files.write(JOURNAL, msgspec.json.format(msgspec.json.encode(saved), indent=1))
    return saved
