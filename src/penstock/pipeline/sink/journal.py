"""The journal of a sink: one small file, replaced at once, that says which rows count and how many of them are out.

Rows *count* when the journal names their files. From then on they have numbers, in the order of files and rows, which
never change: with the writer's identity a number tells a broker what it has. What is *settled* a broker has on its
disk. A batch that counts and is not settled is published to its end by whoever comes next.
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
"""Names of batch writes that are remembered, the last ones."""
_FORMAT: Final = 1


class CountedBatch(msgspec.Struct, frozen=True):
    """The last batch that counts."""

    number: int = -1
    """Spark's number of a streaming batch; -1 for a batch write."""
    name: str = ""
    """Of a batch write."""
    first: int = 1
    """The number of its first row among all that this writer has published."""
    rows: int = 0
    settled: int = 0
    """So many of its rows, in order, are with the broker for good."""
    touched_ms: int = 0
    """When that was noted."""
    files: tuple[StagedRows, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether all of it is with the broker."""
        return self.settled >= self.rows


class SinkJournal(msgspec.Struct, frozen=True):
    """What a writer has published, and is publishing."""

    format: int
    writer: str
    """The identity of the writer, made up once."""
    pubend: str
    overlay: str = ""
    """Known from the first connection on."""
    query: str = ""
    """The streaming query whose batches these are; empty for batch writes."""
    stream: int = -1
    """The last batch of that query that counts."""
    sequence: int = 0
    """Grows with every change."""
    batch: CountedBatch = CountedBatch()
    names: tuple[str, ...] = ()
    """Of batch writes that count."""
    problem: str = ""
    """Why nothing more may be published, if so."""

    @classmethod
    def fresh(cls, pubend: str) -> SinkJournal:
        """Of a writer that has published nothing."""
        return cls(_FORMAT, uuid4().hex, pubend)


def load_journal(files: LocalFiles, pubend: str) -> SinkJournal:
    """The journal of a staging folder, which must be for this pubend; a fresh one if there is none."""
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
    """Replace the journal, for good; answers with it as it is now."""
    saved = msgspec.structs.replace(journal, sequence=journal.sequence + 1)
    files.write(JOURNAL, msgspec.json.format(msgspec.json.encode(saved), indent=1))
    return saved
