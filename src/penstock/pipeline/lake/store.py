"""The single writer of a table: commits batches exactly once, merges files, and recovers from a crash at any point.

See ``journal`` for the steps. Everything the journal promises is durable before the journal says so, and the next start
completes what it says: a committed batch and a pending compaction are rolled forward, anything else staged is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from penstock.model.lake_tables import LakeTable
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.lake.journal import Batch, Compaction, Journal, Move, journal_path, load_journal, snapshot

__all__ = ["StagedFile", "TableStore"]

_STAGING: Final = "_staging"
_SHIPPED: Final = "shipped"
"""The stream name of tables that brokers write."""
_COMPACTIONS_MAX: Final = 256
"""How many compactions may have inputs that are still kept."""


@dataclass(slots=True, frozen=True)
class StagedFile:
    """A file of a batch that is complete and durable, but not visible yet."""

    path: str
    """Path relative to the lake."""
    partition: str
    """Its folder relative to the table's."""
    rows: int
    size: int
    """Size in bytes."""
    first: int
    """Sort key that numbers the files of a partition: for publications, the first tick."""


class TableStore:
    """A table with a journal. The creator must hold the table's lock and call ``open`` first."""

    def __init__(self, files: LocalFiles, table: LakeTable) -> None:
        self.files, self.table = files, table
        self._journal: Journal | None = None

    @property
    def journal(self) -> Journal:
        """The current journal."""
        assert self._journal is not None, "the table has not been opened"
        return self._journal

    def open(self, stream: str, *, is_new: bool) -> None:
        """Resume the table for the batches of a checkpoint; ``is_new`` if the checkpoint has no batch yet."""
        found = load_journal(self.files, self.table)
        place = self.files.location(self.table.name)
        if found is None and (self.files.listed(self.table.name) or not is_new):
            lost = "its files have no journal" if is_new else "it has gone, but its checkpoint has not"
            raise LakeMismatchError(f"the table {place} cannot be continued: {lost}; use another lake")
        if found is not None and found.stream != stream:
            raise LakeMismatchError(
                f"the table {place} was written from another checkpoint, which is gone: it cannot be resumed without "
                "loss or duplicates; use another lake, or remove the table too"
            )
        if found is None:
            found = Journal.fresh(self.table, stream)
            self.files.write(journal_path(self.table), _encoded(found))
        self._journal = found
        self._recover()

    def open_shipped(self) -> None:
        """Resume a table that brokers write: their files are visible at once, and only compactions need the journal."""
        found = load_journal(self.files, self.table)
        if found is not None and found.stream != _SHIPPED:
            raise LakeMismatchError(f"the table {self.files.location(self.table.name)} is not written by brokers")
        if found is None:
            found = Journal.fresh(self.table, _SHIPPED)
            self.files.write(journal_path(self.table), _encoded(found))
        self._journal = found
        self._recover()

    def staging(self, name: str) -> str:
        """Create an empty folder to write files in, relative to the lake; readers skip it."""
        folder = f"{self.table.name}/{_STAGING}/{name}"
        self.files.clear(folder)
        self.files.make_folder(folder)
        return folder

    def has(self, number: int, offsets: str) -> bool:
        """Whether a batch is already committed: then it must not be written again."""
        batch = self.journal.batch
        if number == batch.number and offsets != batch.offsets:
            raise LakeError(
                f"batch {number} of {self.files.location(self.table.name)} stood for other offsets before: "
                "the checkpoint was changed or damaged, and going on would lose or repeat rows"
            )
        return number <= batch.number

    def publish(self, number: int, staged: Sequence[StagedFile], offsets: str = "") -> list[str]:
        """Commit a batch atomically; returns its files, or none if it was already committed."""
        if self.has(number, offsets) or not staged:
            # An empty batch needs no entry: it would be empty again, since messages never appear later in the log.
            return []
        moves = tuple(Move(each.path, final) for each, final in self._places(number, staged))
        self.files.sync_names([each.path for each in staged])
        self._write(replace(self.journal, batch=Batch(number, offsets, moves, is_done=False)))
        self._finish_batch()
        return [move.final for move in moves]

    def compact(self, inputs: Sequence[str], staged: str, *, now_ms: int, keep_ms: int = 0) -> str:
        """Replace visible inputs by a staged file; returns its final path.

        The inputs are deleted after ``keep_ms``, by a later call of this or of ``sweep``.
        """
        assert len({path.rpartition("/")[0] for path in inputs}) == 1, "the inputs must be of one partition"
        number = self.journal.compaction_next
        final = f"{inputs[0].rpartition('/')[0]}/c{number:012d}.parquet"
        compaction = Compaction(tuple(inputs), Move(staged, final))
        compactions = (*self.journal.compactions, compaction)
        self.files.sync_names([staged])
        self._write(replace(self.journal, compaction_next=number + 1, compactions=compactions))
        self._switch(now_ms)
        self.sweep(now_ms=now_ms, keep_ms=keep_ms)
        return final

    def sweep(self, *, now_ms: int, keep_ms: int = 0) -> None:
        """Delete the inputs of compactions that switched at least ``keep_ms`` ago."""
        due = [
            each
            for each in self.journal.compactions
            if each.switched_ms is None or each.switched_ms + keep_ms <= now_ms
        ]
        assert all(each.switched_ms is not None for each in due), "a compaction is pending"
        if due:
            self.files.delete([path for each in due for path in each.inputs])
            self._write(replace(self.journal, compactions=tuple(e for e in self.journal.compactions if e not in due)))

    @property
    def may_compact(self) -> bool:
        """Whether there is room in the journal for another compaction."""
        return len(self.journal.compactions) < _COMPACTIONS_MAX

    def current(self) -> dict[str, int]:
        """The visible files, with their sizes."""
        return snapshot(self.files, self.table)

    def _places(self, number: int, staged: Sequence[StagedFile]) -> list[tuple[StagedFile, str]]:
        # The same rows get the same names, in whatever order tasks wrote them.
        ordered = sorted(staged, key=lambda each: (each.partition, each.first, each.path))
        counts: dict[str, int] = {}
        places = []
        for each in ordered:
            count = counts[each.partition] = counts.get(each.partition, -1) + 1
            places.append((each, f"{self.table.name}/{each.partition}/b{number:012d}-{count:04d}.parquet"))
        return places

    def _finish_batch(self) -> None:
        batch = self.journal.batch
        if not batch.is_done:
            self.files.move([(move.staged, move.final) for move in batch.moves])
            self._write(replace(self.journal, batch=replace(batch, moves=(), is_done=True)))

    def _switch(self, now_ms: int) -> None:
        pending = [each for each in self.journal.compactions if each.switched_ms is None]
        if pending:
            self.files.move([(each.output.staged, each.output.final) for each in pending])
            switched = tuple(
                replace(each, switched_ms=now_ms) if each.switched_ms is None else each
                for each in self.journal.compactions
            )
            self._write(replace(self.journal, compactions=switched))

    def _recover(self) -> None:
        self._finish_batch()
        # Readers of these inputs started beside a writer that has since ended: the inputs are not kept any longer.
        self._switch(now_ms=0)
        self.sweep(now_ms=0, keep_ms=-(2**62))
        self.files.clear(f"{self.table.name}/{_STAGING}")

    def _write(self, journal: Journal) -> None:
        changed = replace(journal, sequence=journal.sequence + 1, version=self.table.version)
        self.files.write(journal_path(self.table), _encoded(changed))
        self._journal = changed


def _encoded(journal: Journal) -> bytes:
    return msgspec.json.format(msgspec.json.encode(journal), indent=1)
