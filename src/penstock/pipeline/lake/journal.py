"""The journal of a table: one small file, replaced at once, that says which files count while others take their place.

Who writes a table changes files in three ways only, and the journal is ahead of each:

- a batch *counts* when the journal names its staged files. Then they are moved to their places, and it is *done*.
- a compaction is *pending* when the journal names its staged output and its inputs. Then the output is moved to its
  place.
- a compaction has *switched* when the journal says so. Then the inputs are deleted, and the compaction is forgotten.

Readers list the files and leave out what the journal names: the files of a batch that is not done, the output of a
compaction that is pending, the inputs of one that has switched. While the journal is the same before and after the
listing, all other files are there as a whole, in whatever order the listing meets them: so no row is seen twice, and
none is missing.
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
"""A journal changes some times per second at most, and a listing takes milliseconds: the bound is for broken disks."""


class Move(msgspec.Struct, frozen=True):
    """One file from where it was staged to its place."""

    staged: str
    final: str


class Batch(msgspec.Struct, frozen=True):
    """The last batch that counts."""

    number: int
    offsets: str
    """A digest of what the batch consists of: the same number must never stand for something else."""
    moves: tuple[Move, ...] = ()
    is_done: bool = True


class Compaction(msgspec.Struct, frozen=True):
    """Some files that are becoming one."""

    inputs: tuple[str, ...]
    output: Move
    switched_ms: int | None = None
    """When the output began to count instead of the inputs; none while it does not."""


class Journal(msgspec.Struct, frozen=True):
    """What is going on in a table."""

    format: int
    table: str
    version: int
    """Of the table's columns."""
    stream: str
    """Whose batches these are: the identity of a checkpoint."""
    sequence: int
    """Grows with every change."""
    batch: Batch
    compaction_next: int = 0
    compactions: tuple[Compaction, ...] = ()

    @classmethod
    def fresh(cls, table: LakeTable, stream: str) -> Journal:
        """Of a table with no batch."""
        return cls(_FORMAT, table.name, table.version, stream, 0, Batch(-1, ""))


def journal_path(table: LakeTable) -> str:
    """Where the journal of a table is."""
    return f"{table.name}/_journal.json"


def load_journal(files: LocalFiles, table: LakeTable) -> Journal | None:
    """The journal of a table, or none if it has none: then all its files count."""
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
    """The files that do not count although they may be at their place."""
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
    """The files of a table that count, with their sizes, as of one moment."""
    for _ in range(_LISTINGS_MAX):
        before = load_journal(files, table)
        listed = files.listed(table.name)
        if load_journal(files, table) == before:
            hidden = set(hidden_files(before))
            return {path: size for path, size in listed.items() if path not in hidden}
    raise LakeError(f"the table {files.location(table.name)} changes faster than it can be listed")
