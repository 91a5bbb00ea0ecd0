"""What is kept of a sweep: whole files, one sweep per folder, nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import PeerError
from penstock.pipeline.errors import SweepError
from penstock.pipeline.sweep.plan import Run, SweepPlan, planned
from penstock.pipeline.sweep.store import SweepStore
from penstock.pipeline.sweep.tasks import Outcome
from pipeline.toys import ODD_FAILS, WAVE

parquet = pytest.importorskip("pyarrow.parquet", reason="Spark tests: pyarrow is not installed")


def plan(seeds: str = "1..3", grid: str = "size=1,2") -> SweepPlan:
    return planned(WAVE, grid=[grid], settings=["mode=wild"], seeds=seeds)


def finished(cell: int, seed: int, **measured: float) -> Outcome:
    return Outcome(Run(cell, seed), measured, None, 0.1)


def test_what_was_kept_is_there_for_the_next_invocation(tmp_path: Path) -> None:
    SweepStore(tmp_path / "new" / "folder", plan()).keep([finished(0, 1, a=1.5, b=2.0), finished(1, 3, a=7.0)])
    again = SweepStore(tmp_path / "new" / "folder", plan())
    assert again.found == {Run(0, 1): {"a": 1.5, "b": 2.0}, Run(1, 3): {"a": 7.0}}


def test_failed_runs_are_not_kept_and_finished_ones_only_once(tmp_path: Path) -> None:
    store = SweepStore(tmp_path, plan())
    store.keep([Outcome(Run(0, 1), {}, "failed", 0.1)])
    assert list((tmp_path / "parts").iterdir()) == []
    store.keep([finished(0, 2, a=1.0)])
    store.keep([finished(0, 2, a=2.0)])
    assert store.found == {Run(0, 2): {"a": 1.0}}
    assert len(list((tmp_path / "parts").iterdir())) == 1


def test_the_table_has_a_row_per_run_and_metric_in_the_order_of_the_plan(tmp_path: Path) -> None:
    store = SweepStore(tmp_path, plan())
    store.keep([finished(1, 1, a=3.0)])
    store.keep([finished(0, 2, a=1.0, b=2.0), finished(0, 99, a=9.0)])
    table = parquet.read_table(store.write_results())
    assert table.schema.names == ["experiment", "size", "mode", "seed_", "seed", "metric", "value"]
    assert [str(kind) for kind in table.schema.types] == [
        "string",
        "int64",
        "string",
        "double",
        "int64",
        "string",
        "double",
    ]
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("wave", 1, "wild", 1.5, 2, "a", 1.0),
        ("wave", 1, "wild", 1.5, 2, "b", 2.0),
        ("wave", 2, "wild", 1.5, 1, "a", 3.0),
    ]


def test_parts_become_one_with_the_table_and_lose_nothing(tmp_path: Path) -> None:
    store = SweepStore(tmp_path, plan())
    for seed in (1, 2, 99):
        store.keep([finished(0, seed, a=1.0)])
    store.write_results()
    assert len(list((tmp_path / "parts").iterdir())) == 1
    assert set(SweepStore(tmp_path, plan()).found) == {Run(0, 1), Run(0, 2), Run(0, 99)}


def test_a_folder_of_another_sweep_is_refused_with_the_difference(tmp_path: Path) -> None:
    SweepStore(tmp_path, plan())
    SweepStore(tmp_path, plan(seeds="5..9"))
    with pytest.raises(
        SweepError, match=r"holds another sweep: its grid is .*\[1,2\].*, not .*\[1,3\].*; choose another"
    ):
        SweepStore(tmp_path, plan(grid="size=1,3"))
    with pytest.raises(SweepError, match='its experiment is "wave", not "odd-fails"'):
        SweepStore(tmp_path, planned(ODD_FAILS))
    (tmp_path / "sweep.json").write_text("not JSON")
    with pytest.raises(SweepError, match=r"a sweep\.json that cannot be read"):
        SweepStore(tmp_path, plan())


def test_what_an_interruption_left_half_written_is_removed(tmp_path: Path) -> None:
    SweepStore(tmp_path, plan())
    (tmp_path / "parts" / "x.parquet.tmp").write_bytes(b"PAR1 half")
    assert SweepStore(tmp_path, plan()).found == {}
    assert list((tmp_path / "parts").iterdir()) == []


def test_a_part_that_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    SweepStore(tmp_path, plan())
    (tmp_path / "parts" / "x.parquet").write_bytes(b"something else")
    with pytest.raises(PeerError, match=r"x\.parquet is no Parquet file; remove it, and its runs are made again"):
        SweepStore(tmp_path, plan())


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SweepError, match=r"cannot keep the sweep in .*: Not a directory"):
        SweepStore(tmp_path / "file" / "folder", plan())
