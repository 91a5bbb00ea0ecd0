"""The one writer of a table: batches come in exactly once, files are merged, and a crash at any point is mended.

See ``journal`` for the steps. Everything the journal promises is durable before the journal says so, and whatever it
says is completed at the next start: a batch that counts and a compaction that is pending are rolled forward, what was
staged for anything else is deleted.
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
"""The stream of tables that brokers write."""
_COMPACTIONS_MAX: Final = 256
"""Compactions whose inputs are still kept."""


@dataclass(slots=True, frozen=True)
class StagedFile:
    """A file of a batch that is whole and durable, but does not count yet."""

    path: str
    """Below the lake."""
    partition: str
    """Its folder below the table's."""
    rows: int
    size: int
    """Bytes."""
    first: int
    """By which the files of a partition are numbered: for publications the first tick."""


class TableStore:
    """A table with a journal. Whoever makes one must have the table's lock; ``open`` comes first."""

    def __init__(self, files: LocalFiles, table: LakeTable) -> None:
        self.files, self.table = files, table
        self._journal: Journal | None = None

    @property
    def journal(self) -> Journal:
        """What is going on."""
        assert self._journal is not None, "the table has not been opened"
        return self._journal

    def open(self, stream: str, *, is_new: bool) -> None:
        """Take up the table where it was left, for the batches of a checkpoint; ``is_new`` if that has none yet."""
        found = load_journal(self.files, self.table)
        place = self.files.location(self.table.name)
        if found is None and (self.files.listed(self.table.name) or not is_new):
            lost = "its files have no journal" if is_new else "it has gone, but its checkpoint has not"
            raise LakeMismatchError(f"the table {place} cannot be continued: {lost}; use another lake")
        if found is not None and found.stream != stream:
            raise LakeMismatchError(
                f"the table {place} was written from another checkpoint, which has gone: nobody knows where to go on "
                "without loss or repetition; use another lake, or remove the table as well"
            )
        if found is None:
            found = Journal.fresh(self.table, stream)
            self.files.write(journal_path(self.table), _encoded(found))
        self._journal = found
        self._recover()

    def open_shipped(self) -> None:
        """Take up a table that brokers write: their files count by themselves, only compactions need the journal."""
        found = load_journal(self.files, self.table)
        if found is not None and found.stream != _SHIPPED:
            raise LakeMismatchError(f"the table {self.files.location(self.table.name)} is not written by brokers")
        if found is None:
            found = Journal.fresh(self.table, _SHIPPED)
            self.files.write(journal_path(self.table), _encoded(found))
        self._journal = found
        self._recover()

    def staging(self, name: str) -> str:
        """An empty folder in which files may be written, below the lake; nobody reads there."""
        folder = f"{self.table.name}/{_STAGING}/{name}"
        self.files.clear(folder)
        self.files.make_folder(folder)
        return folder

    def has(self, number: int, offsets: str) -> bool:
        """Whether a batch counts already: then it must not be written again."""
        batch = self.journal.batch
        if number == batch.number and offsets != batch.offsets:
            raise LakeError(
                f"batch {number} of {self.files.location(self.table.name)} stood for other offsets before: "
                "the checkpoint was changed or damaged, and going on would lose or repeat rows"
            )
        return number <= batch.number

    def publish(self, number: int, staged: Sequence[StagedFile], offsets: str = "") -> list[str]:
        """Make a batch count, all of it at once; answers with its files. One that counts already is left as it is."""
        if self.has(number, offsets) or not staged:
            # Without rows there is nothing to remember: what is not in the log now will not be in it later.
            return []
        moves = tuple(Move(each.path, final) for each, final in self._places(number, staged))
        self.files.sync_names([each.path for each in staged])
        self._write(replace(self.journal, batch=Batch(number, offsets, moves, is_done=False)))
        self._finish_batch()
        return [move.final for move in moves]

    def compact(self, inputs: Sequence[str], staged: str, *, now_ms: int, keep_ms: int = 0) -> str:
        """Let a staged file count instead of its inputs, which must count now; answers with its place.

        The inputs are deleted after ``keep_ms``, with a later call of this or of ``sweep``.
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
        """Delete the inputs of compactions that have switched so long ago."""
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
        """The files that count, with their sizes."""
        return snapshot(self.files, self.table)

    def _places(self, number: int, staged: Sequence[StagedFile]) -> list[tuple[StagedFile, str]]:
        # The same rows get the same names, whoever wrote them in whatever order.
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
        # Whoever read the inputs of a compaction did so beside a writer that has ended since: they are not kept longer.
        self._switch(now_ms=0)
        self.sweep(now_ms=0, keep_ms=-(2**62))
        self.files.clear(f"{self.table.name}/{_STAGING}")

    def _write(self, journal: Journal) -> None:
        changed = replace(journal, sequence=journal.sequence + 1, version=self.table.version)
        self.files.write(journal_path(self.table), _encoded(changed))
        self._journal = changed


def _encoded(journal: Journal) -> bytes:
    return msgspec.json.format(msgspec.json.encode(journal), indent=1)
