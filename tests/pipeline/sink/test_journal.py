from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.journal import JOURNAL, CountedBatch, SinkJournal, load_journal, save_journal
from penstock.pipeline.sink.staging import StagedRows


def test_a_journal_is_kept_and_every_change_of_it_counts(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    batch = CountedBatch(3, first=8, rows=2, settled=1, files=(StagedRows("p", 2, 9, 4),))
    first = save_journal(files, msgspec.structs.replace(SinkJournal.fresh("q"), batch=batch, stream=3))
    assert load_journal(files, "q") == first
    assert save_journal(files, first).sequence == first.sequence + 1
    assert not first.batch.is_settled


def test_every_folder_begins_with_a_writer_of_its_own(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    assert load_journal(files, "q").writer != load_journal(files, "q").writer
    assert load_journal(files, "q").batch.is_settled


def test_the_folder_of_another_pubend_is_refused(tmp_path: Path) -> None:
    save_journal(LocalFiles(tmp_path), SinkJournal.fresh("q"))
    with pytest.raises(SinkOptionError, match="is of pubend 'q', not of 'r'"):
        load_journal(LocalFiles(tmp_path), "r")


@pytest.mark.parametrize(("content", "says"), [(b"{", "damaged"), (b'{"format": 1}', "damaged")])
def test_a_damaged_journal_is_no_fresh_one(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / JOURNAL).write_bytes(content)
    with pytest.raises(SinkError, match=says):
        load_journal(LocalFiles(tmp_path), "q")


def test_a_journal_of_the_future_is_refused(tmp_path: Path) -> None:
    save_journal(LocalFiles(tmp_path), msgspec.structs.replace(SinkJournal.fresh("q"), format=2))
    with pytest.raises(SinkOptionError, match="format 2"):
        load_journal(LocalFiles(tmp_path), "q")
