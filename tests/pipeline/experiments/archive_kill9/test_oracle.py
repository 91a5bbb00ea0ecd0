"""The oracle of the archive: what is lost, there twice, or strange, by reading the files as anybody would."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipeline.experiments.archive_kill9.oracle import (
    ArchiveVerdict,
    archived_rows,
    judge_archive,
    read_archive,
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(lake: Path, name: str, *ids: str, pubend: str = "q") -> Path:
    path = lake / f"publications/date=2026-11-15/pubend={pubend}/{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"message_id": list(ids), "tick": list(range(len(ids)))}), path)
    return path


def test_what_is_archived_once_is_right() -> None:
    rows = [("a", "q"), ("b", "q"), ("c", "r")]
    assert judge_archive({"q": ["a", "b"], "r": ["c"]}, {"q": 2, "r": 1}, rows) == ArchiveVerdict(3, 0, 0, 0)


def test_what_was_not_acknowledged_may_be_missing_but_not_twice() -> None:
    published, acked = {"q": ["a", "b"]}, {"q": 1}
    assert judge_archive(published, acked, [("a", "q")]) == ArchiveVerdict(1, 0, 0, 0)
    assert judge_archive(published, acked, [("a", "q"), ("b", "q")]) == ArchiveVerdict(2, 0, 0, 0)
    assert judge_archive(published, acked, [("a", "q"), ("b", "q"), ("b", "q")]).duplicated == 1


def test_a_message_in_the_wrong_pubend_is_lost_and_strange() -> None:
    verdict = judge_archive({"q": ["a"], "r": []}, {"q": 1, "r": 0}, [("a", "r")])
    assert (verdict.lost, verdict.strange) == (1, 1)


def test_rows_are_read_from_what_is_not_hidden(tmp_path: Path) -> None:
    assert read_archive(tmp_path) == []
    write(tmp_path, "b0.parquet", "a", "b")
    write(tmp_path, "c0.parquet", "c", pubend="r")
    write(tmp_path, "_d.parquet", "hidden")
    hidden = tmp_path / "publications/_staging/x.parquet"
    hidden.parent.mkdir()
    pq.write_table(pa.table({"message_id": ["staged"]}), hidden)
    assert read_archive(tmp_path) == [("a", "q"), ("b", "q"), ("c", "r")]


def test_counting_beside_a_writer_takes_what_it_can_read(tmp_path: Path) -> None:
    known: dict[Path, int] = {}
    path = write(tmp_path, "b0.parquet", "a", "b")
    path.with_name("b1.parquet").write_bytes(b"not yet")
    assert archived_rows(tmp_path, known) == 2
    assert known == {path: 2}
    path.unlink()
    assert archived_rows(tmp_path, known) == 0
