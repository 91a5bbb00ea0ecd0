"""The journal: read whole or refused, and readers who list beside a writer try again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from penstock.model.lake_tables import PUBLICATIONS
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.lake.journal import (
    Batch,
    Compaction,
    Journal,
    Move,
    hidden_files,
    journal_path,
    load_journal,
    snapshot,
)

FRESH = Journal.fresh(PUBLICATIONS, "stream")


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    assert load_journal(files, PUBLICATIONS) is None
    batch = Batch(3, "digest", (Move("a", "b"),), is_done=False)
    journal = replace(FRESH, batch=batch, compactions=(Compaction(("x",), Move("y", "z"), 5),))
    files.write(journal_path(PUBLICATIONS), msgspec.json.encode(journal))
    assert load_journal(files, PUBLICATIONS) == journal


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}'])
def test_a_damaged_journal_is_told(tmp_path: Path, content: bytes) -> None:
    files = LocalFiles(tmp_path)
    files.write(journal_path(PUBLICATIONS), content)
    with pytest.raises(LakeError, match="is damaged"):
        load_journal(files, PUBLICATIONS)


def test_another_format_table_or_version_is_refused(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    for changed, complaint in (
        (replace(FRESH, format=2), "is of format 2"),
        (replace(FRESH, table="histories"), "of table 'histories'"),
        (replace(FRESH, version=9), "are of version 9; this Penstock has version 1"),
    ):
        files.write(journal_path(PUBLICATIONS), msgspec.json.encode(changed))
        with pytest.raises(LakeMismatchError, match=complaint):
            load_journal(files, PUBLICATIONS)


def test_what_is_on_its_way_is_hidden() -> None:
    moves = (Move("s", "new"),)
    pending, switched = Compaction(("a", "b"), Move("s", "ab")), Compaction(("c", "d"), Move("s", "cd"), 7)
    assert list(hidden_files(None)) == list(hidden_files(FRESH)) == []
    assert list(hidden_files(replace(FRESH, batch=Batch(0, "", moves, is_done=False)))) == ["new"]
    assert list(hidden_files(replace(FRESH, batch=Batch(0, "", moves)))) == []
    both = replace(FRESH, compactions=(pending, switched))
    assert list(hidden_files(both)) == ["ab", "c", "d"]


class Restless(LocalFiles):
    """While it lists, the journal changes, some times."""

    changes = 3

    def listed(self, folder: str) -> dict[str, int]:
        if self.changes:
            self.changes -= 1
            self.write(journal_path(PUBLICATIONS), msgspec.json.encode(replace(FRESH, sequence=self.changes)))
        return super().listed(folder)


def test_a_listing_counts_only_if_the_journal_stayed_the_same(tmp_path: Path) -> None:
    files = Restless(tmp_path)
    assert snapshot(files, PUBLICATIONS) == {}
    assert files.changes == 0
    files.changes = 10**9
    with pytest.raises(LakeError, match="changes faster than it can be listed"):
        snapshot(files, PUBLICATIONS)


def test_a_table_without_a_journal_is_all_its_files(tmp_path: Path) -> None:
    later = dataclasses.replace(PUBLICATIONS, name="histories")
    files = LocalFiles(tmp_path)
    files.write("histories/date=2026-11-15/x.parquet", b"123")
    assert snapshot(files, later) == {"histories/date=2026-11-15/x.parquet": 3}
