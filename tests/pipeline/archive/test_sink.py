"""Batches come one at a time, each once; after the end none begins."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.model.lake_tables import PUBLICATIONS
from penstock.pipeline.archive.checkpoint import Checkpoint
from penstock.pipeline.archive.sink import ArchiveSink, SinkClosedError
from penstock.pipeline.lake.compaction import CompactionPolicy, Compactor
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.lake.store import TableStore
from pipeline.lake.lakes import batch_of, expected, ids


class Frame:
    """As much of a Spark frame as the sink needs; its tasks run here."""

    def __init__(self, *batches: Any, before: Any = None) -> None:
        self._batches, self._before, self.computed = batches, before, 0

    def select(self, *_columns: str) -> Frame:
        return self

    def mapInArrow(self, work: Any, _schema: str) -> Frame:  # noqa: N802 - the name is Spark's
        self._work = work
        return self

    def collect(self) -> list[dict[str, Any]]:
        self.computed += 1
        if self._before is not None:
            self._before()
        return [row for told in self._work(iter(self._batches)) for row in told.to_pylist()]


def sink_in(root: Path) -> tuple[ArchiveSink, LocalFiles]:
    files = LocalFiles(root)
    store = TableStore(files, PUBLICATIONS)
    store.open("stream", is_new=True)
    for number in range(3):
        files.write(f"_checkpoints/publications/spark/offsets/{number}", b"offsets")
    return ArchiveSink(store, Checkpoint(files, PUBLICATIONS), Compactor(store, CompactionPolicy())), files


def test_a_batch_is_computed_and_counted_once(tmp_path: Path) -> None:
    sink, files = sink_in(tmp_path)
    for frame, computed in ((Frame(batch_of([1, 2])), 1), (again := Frame(batch_of([1, 2])), 0)):
        sink(frame, 0)  # type: ignore[arg-type]
        assert frame.computed == computed
    assert again.computed == 0
    assert ids(files) == expected(1, 2)
    totals = sink.totals
    assert (totals.batches, totals.repeated, totals.rows, totals.files) == (1, 1, 2, 1)
    assert totals.bytes > 0
    assert list((tmp_path / "publications/_staging").iterdir()) == []


def test_what_a_batch_failed_of_is_remembered_and_it_can_come_again(tmp_path: Path) -> None:
    sink, files = sink_in(tmp_path)

    def fail() -> None:
        raise ValueError("a task failed")

    with pytest.raises(ValueError, match="a task failed"):
        sink(Frame(batch_of([1]), before=fail), 0)  # type: ignore[arg-type]
    assert str(sink.failure) == "a task failed"
    sink(Frame(batch_of([1])), 0)  # type: ignore[arg-type]
    assert ids(files) == expected(1)


def test_closing_waits_for_the_batch_at_hand_and_lets_none_begin(tmp_path: Path) -> None:
    sink, files = sink_in(tmp_path)
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go_on.wait()

    beside = threading.Thread(target=sink, args=(Frame(batch_of([1]), before=hold), 0))
    beside.start()
    begun.wait()
    assert not sink.close(0.0)
    go_on.set()
    assert sink.close(60.0)
    beside.join()
    assert ids(files) == expected(1)
    with pytest.raises(SinkClosedError, match="batch 1 comes after the end"):
        sink(Frame(batch_of([2])), 1)  # type: ignore[arg-type]
    assert sink.failure is None
