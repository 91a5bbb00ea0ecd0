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
    batch = CountedBatch(3, rows=2, settled=1, files=(StagedRows("p", 2, 9, 4, {"q": 1, "r": 1}),))
    counted = msgspec.structs.replace(SinkJournal.fresh("q"), batch=batch, stream=3, published={"q": 7, "r": 4})
    first = save_journal(files, counted)
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


def test_a_query_may_begin_or_cease_to_have_a_pubend_besides_its_column(tmp_path: Path) -> None:
    """The journal keeps what it began with, as the identity of the writer depends on it."""
    for place, (before, now) in enumerate((("q", ""), ("", "q"))):
        files = LocalFiles(tmp_path / str(place))
        saved = save_journal(files, SinkJournal.fresh(before))
        assert load_journal(files, now) == saved
        assert load_journal(files, now).pubend == before


@pytest.mark.parametrize(("content", "says"), [(b"{", "damaged"), (b'{"format": 1}', "damaged")])
def test_a_damaged_journal_is_no_fresh_one(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / JOURNAL).write_bytes(content)
    with pytest.raises(SinkError, match=says):
        load_journal(LocalFiles(tmp_path), "q")


def test_a_journal_of_the_future_is_refused(tmp_path: Path) -> None:
    save_journal(LocalFiles(tmp_path), msgspec.structs.replace(SinkJournal.fresh("q"), format=3))
    with pytest.raises(SinkOptionError, match="format 3; this Penstock has 2"):
        load_journal(LocalFiles(tmp_path), "q")


def test_a_journal_of_format_1_has_all_its_rows_at_its_pubend(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text(
        """{"format": 1, "writer": "w", "pubend": "q", "overlay": "demo", "query": "u", "stream": 3, "sequence": 9,
        "batch": {"number": 3, "name": "", "first": 8, "rows": 5, "settled": 1, "touched_ms": 4,
        "files": [{"path": "a", "rows": 2, "size": 9, "crc": 4}, {"path": "b", "rows": 3, "size": 9, "crc": 5}]},
        "names": ["n"], "problem": ""}"""
    )
    files = (StagedRows("a", 2, 9, 4, {"q": 2}), StagedRows("b", 3, 9, 5, {"q": 3}))
    batch = CountedBatch(3, rows=5, settled=1, touched_ms=4, files=files)
    read = load_journal(LocalFiles(tmp_path), "q")
    assert read == SinkJournal(2, "w", "q", "demo", "u", 3, 9, batch, {"q": 7}, ("n",))
    assert save_journal(LocalFiles(tmp_path), read) == load_journal(LocalFiles(tmp_path), "q")


def test_a_journal_of_format_1_that_has_published_nothing_begins_at_the_beginning(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text('{"format": 1, "writer": "w", "pubend": "q", "batch": {}}')
    read = load_journal(LocalFiles(tmp_path), "q")
    assert (read.published, read.batch) == ({"q": 0}, CountedBatch())
