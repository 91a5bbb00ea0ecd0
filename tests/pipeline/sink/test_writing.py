"""What Spark calls, called without Spark: rows are staged by tasks, and published or forgotten by the driver."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.lab.demo_overlay import DemoOverlay
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.writing import PenstockStreamWriter, PenstockWriter, batch_writer, stream_writer
from pipeline.sink.test_publishing import logged

SCHEMA = StructType([StructField("number", LongType())])


def batch(*numbers: int) -> object:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def options(overlay: DemoOverlay, staging: Path, **more: str) -> dict[str, str]:
    return {"broker": overlay.url("b1"), "pubend": "b1.out", "staging": str(staging), **more}


def test_a_stream_is_staged_committed_and_aborted(overlay: DemoOverlay, tmp_path: Path) -> None:
    given = options(overlay, tmp_path)
    writer: PenstockStreamWriter = cloudpickle.loads(
        cloudpickle.dumps(stream_writer(given, SCHEMA, overwrite=False))  # type: ignore[no-untyped-call]
    )
    staged: list[WriterCommitMessage | None] = [writer.write(iter([batch(1, 2), batch(3)])), writer.write(iter([]))]
    assert len(list(tmp_path.rglob("*.rows"))) == 2
    writer.commit(staged, 0)
    writer.commit([writer.write(iter([batch(1, 2, 3)]))], 0)
    writer.abort([writer.write(iter([batch(9)])), None], 1)
    assert not list(tmp_path.rglob("*.rows"))
    assert logged(overlay, "b1.out") == [1, 2, 3]


def test_a_batch_is_staged_committed_and_aborted(overlay: DemoOverlay, tmp_path: Path) -> None:
    given = options(overlay, tmp_path, pubend="b1.in", batch="monday")
    writer: PenstockWriter = batch_writer(given, SCHEMA, overwrite=False)
    for _ in range(2):
        writer.commit([writer.write(iter([batch(1, 2)]))])
    writer.abort([None, writer.write(iter([batch(9)]))])
    assert not list(tmp_path.rglob("*.rows"))
    assert logged(overlay, "b1.in") == [1, 2]


def test_a_column_chooses_the_pubend_by_whatever_broker(overlay: DemoOverlay, tmp_path: Path) -> None:
    made = StructType([*SCHEMA.fields, StructField("pubend", StringType())])
    given = {"broker": overlay.url("b2"), "staging": str(tmp_path), "pubendColumn": "pubend", "pubend": "b1.more"}
    before = logged(overlay, "b1.out")
    writer = batch_writer(given, made, overwrite=False)
    columns = {"number": pa.array([1, 2, 3], pa.int64()), "pubend": pa.array(["b1.out", None, "b1.out"])}
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(columns)]))])
    assert logged(overlay, "b1.more") == [2]
    assert logged(overlay, "b1.out") == [*before, 1, 3]


def test_what_is_published_cannot_be_overwritten(tmp_path: Path) -> None:
    given = {"broker": "penstock://b1", "pubend": "q", "staging": str(tmp_path)}
    for make in (batch_writer, stream_writer):
        with pytest.raises(SinkOptionError, match="use mode append"):
            make(given, SCHEMA, overwrite=True)


def test_a_stream_has_no_name_of_a_batch(tmp_path: Path) -> None:
    given = {"broker": "penstock://b1", "pubend": "q", "staging": str(tmp_path), "batch": "monday"}
    with pytest.raises(SinkOptionError, match="option batch is for batch writes"):
        stream_writer(given, SCHEMA, overwrite=False)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    given = {"broker": "penstock://b1", "pubend": "q", "staging": str(tmp_path / "file")}
    with pytest.raises(SinkError, match="file"):
        batch_writer(given, SCHEMA, overwrite=False).write(iter([batch(1)]))
