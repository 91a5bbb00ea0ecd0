"""The journal of a sink: one small file, replaced atomically, that says which rows are committed and published.

Rows are *committed* when the journal names their files. From then on they have numbers, which never change: the rows to
each pubend are numbered in the order of files and rows. With the writer's identity, a number lets a pubend deduplicate.
*Settled* rows are on a broker's disk. The next run publishes the rest of a batch that is committed but not settled.

In format 1 all rows of a journal go to one pubend. Such journals are read too, and their numbers go on.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

import msgspec

from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.staging import StagedRows

__all__ = ["JOURNAL", "NAMES_MAX", "CountedBatch", "SinkJournal", "load_journal", "read_journal", "save_journal"]

JOURNAL: Final = "journal.json"
NAMES_MAX: Final = 1_000
"""How many names of batch writes are remembered, the latest ones."""
_FORMAT: Final = 2
_ONE_PUBEND: Final = 1
"""The format in which all rows go to the pubend of the journal."""


class CountedBatch(msgspec.Struct, frozen=True):
    """The last committed batch."""

    number: int = -1
    """Spark's number of a streaming batch; -1 for a batch write."""
    name: str = ""
    """Name of a batch write."""
    rows: int = 0
    settled: int = 0
    """How many of its rows, in order, are durable at their pubends."""
    touched_ms: int = 0
    """When ``settled`` was recorded."""
    files: tuple[StagedRows, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether all of its rows are durable."""
        return self.settled >= self.rows


class SinkJournal(msgspec.Struct, frozen=True):
    """What a writer has published and is publishing."""

    format: int
    writer: str
    """The identity of the writer, generated once."""
    pubend: str
    """Option ``pubend`` of the first run; empty if there was none. Part of the identity, so it never changes."""
    overlay: str = ""
    """Name of the overlay, known from the first connection on."""
    query: str = ""
    """The streaming query whose batches these are; empty for batch writes."""
    stream: int = -1
    """The last committed batch of that query."""
    sequence: int = 0
    """Increases with every change."""
    batch: CountedBatch = CountedBatch()
    published: dict[str, int] = {}
    """How many rows went to each pubend before the last committed batch."""
    names: tuple[str, ...] = ()
    """Names of committed batch writes."""
    problem: str = ""
    """Why nothing more may be published; empty if there is no problem."""

    @classmethod
    def fresh(cls, pubend: str) -> SinkJournal:
        """The journal of a writer that has published nothing."""
        return cls(_FORMAT, uuid4().hex, pubend)


class _FormerBatch(msgspec.Struct):
    first: int = 1
    """The number of its first row among all that the writer has published."""


class _FormerJournal(msgspec.Struct):
    """What format 1 has besides."""

    batch: _FormerBatch


class _Head(msgspec.Struct):
    format: int


def load_journal(files: LocalFiles, pubend: str) -> SinkJournal:
    """Load the journal of a staging folder, which must not be for another pubend; a fresh one if there is none."""
    journal = read_journal(files) or SinkJournal.fresh(pubend)
    if pubend and journal.pubend and journal.pubend != pubend:
        raise SinkOptionError(
            f"the staging folder {files.root} is of pubend {journal.pubend!r}, not of {pubend!r}: "
            "give each query a folder of its own"
        )
    return journal


def read_journal(files: LocalFiles) -> SinkJournal | None:
    """Read the journal of a staging folder, in the present format whatever it is on disk; None if there is none."""
    content = files.read(JOURNAL)
    if content is None:
        return None
    place = files.location(JOURNAL)
    try:
        number = msgspec.json.decode(content, type=_Head).format
        if not _ONE_PUBEND <= number <= _FORMAT:
            raise SinkOptionError(f"the journal {place} is of format {number}; this Penstock has {_FORMAT}")
        journal = msgspec.json.decode(content, type=SinkJournal)
        if number == _ONE_PUBEND:
            former = msgspec.json.decode(content, type=_FormerJournal)
            journal = _upgraded(journal, former.batch.first)
    except msgspec.DecodeError as error:
        raise SinkError(f"the journal {place} is damaged: {error}") from None
    return journal


def _upgraded(journal: SinkJournal, first: int) -> SinkJournal:
    """A journal of format 1 in the present one; ``first`` is the number of the first row of its batch."""
    replace = msgspec.structs.replace
    files = tuple(replace(each, pubends={journal.pubend: each.rows}) for each in journal.batch.files)
    return replace(
        journal,
        format=_FORMAT,
        published={journal.pubend: first - 1},
        batch=replace(journal.batch, files=files),
    )


def save_journal(files: LocalFiles, journal: SinkJournal) -> SinkJournal:
    """Replace the journal durably; returns it as saved."""
    saved = msgspec.structs.replace(journal, sequence=journal.sequence + 1)
    files.write(JOURNAL, msgspec.json.format(msgspec.json.encode(saved), indent=1))
    return saved
