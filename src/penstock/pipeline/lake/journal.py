"""The journal of a table: one small file, replaced atomically, that says which files are visible during changes.

A table's writer changes files in only three ways, and updates the journal before each:

- A batch is *committed* when the journal names its staged files. Then they are moved into place, and it is *done*.
- A compaction is *pending* when the journal names its staged output and its inputs. Then the output is moved into
  place.
- A compaction has *switched* when the journal says so. Then the inputs are deleted, and the compaction is forgotten.

Readers list the files and skip those that the journal names: the files of a batch that is not done, the output of a
pending compaction, the inputs of one that has switched. If the journal is the same before and after the listing, all
other files were there throughout, whatever the order of the listing: so no row is seen twice, and none is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from penstock.model.lake_tables import LakeTable
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.files import LocalFiles

__all__ = ["Batch", "Compaction", "Journal", "Move", "hidden_files", "journal_path", "load_journal", "snapshot"]

_FORMAT: Final = 1
_LISTINGS_MAX: Final = 100
"""A journal changes a few times per second at most, and a listing takes milliseconds: only a broken disk gets here."""


class Move(msgspec.Struct, frozen=True):
    """A file's move from staging into place."""

    staged: str
    final: str


class Batch(msgspec.Struct, frozen=True):
    """The last committed batch."""

    number: int
    offsets: str
    """A digest of the batch's contents: the same number must never stand for something else."""
    moves: tuple[Move, ...] = ()
    is_done: bool = True


class Compaction(msgspec.Struct, frozen=True):
    """A merge of several files into one."""

    inputs: tuple[str, ...]
    output: Move
    switched_ms: int | None = None
    """When the output replaced the inputs; None while it is pending."""


class Journal(msgspec.Struct, frozen=True):
    """The changes in progress in a table."""

    format: int
    table: str
    version: int
    """Version of the table's columns."""
    stream: str
    """The identity of the checkpoint that these batches belong to."""
    sequence: int
    """Increases with every change."""
    batch: Batch
    compaction_next: int = 0
    compactions: tuple[Compaction, ...] = ()

    @classmethod
    def fresh(cls, table: LakeTable, stream: str) -> Journal:
        """The journal of a table without batches."""
        return cls(_FORMAT, table.name, table.version, stream, 0, Batch(-1, ""))


def journal_path(table: LakeTable) -> str:
    """The path of a table's journal."""
    return f"{table.name}/_journal.json"


def load_journal(files: LocalFiles, table: LakeTable) -> Journal | None:
    """Load a table's journal; None if it has none, and then all its files are visible."""
    content = files.read(journal_path(table))
    if content is None:
        return None
    place = files.location(journal_path(table))
    try:
        journal = msgspec.json.decode(content, type=Journal)
    except msgspec.DecodeError as error:
        raise LakeError(f"the journal {place} is damaged: {error}") from None
    if (journal.format, journal.table) != (_FORMAT, table.name):
        raise LakeMismatchError(
            f"the journal {place} is of format {journal.format} and of table {journal.table!r}; "
            f"expected are format {_FORMAT} and table {table.name!r}"
        )
    if journal.version > table.version:
        raise LakeMismatchError(
            f"the columns of {files.location(table.name)} are of version {journal.version}; "
            f"this Penstock has version {table.version}"
        )
    return journal


def hidden_files(journal: Journal | None) -> Iterable[str]:
    """Files that are not visible even though they may be in place."""
    if journal is None:
        return
    if not journal.batch.is_done:
        yield from (move.final for move in journal.batch.moves)
    for compaction in journal.compactions:
        if compaction.switched_ms is None:
            yield compaction.output.final
        else:
            yield from compaction.inputs


def snapshot(files: LocalFiles, table: LakeTable) -> dict[str, int]:
    """The visible files of a table with their sizes, as of one moment."""
    for _ in range(_LISTINGS_MAX):
        before = load_journal(files, table)
        listed = files.listed(table.name)
        if load_journal(files, table) == before:
            hidden = set(hidden_files(before))
            return {path: size for path, size in listed.items() if path not in hidden}
    raise LakeError(f"the table {files.location(table.name)} changes faster than it can be listed")
