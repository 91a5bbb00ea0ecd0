"""Small files become few, in the order of ticks; what cannot be read or may come again is left alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import PUBLICATIONS
from penstock.pipeline.lake.compaction import CompactionPolicy, Compactor, due_groups, merge_files
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.lake.store import TableStore
from pipeline.lake.lakes import DATE, batch_of, expected, ids, staged

KB = 1_024
THREE = CompactionPolicy(files_min=3, target_bytes=1_000 * KB)


def files_of(sizes: list[int], *, day: int = 15, pubend: str = "q") -> dict[str, int]:
    return {f"t/date=2026-11-{day}/pubend={pubend}/b{number:03}": size for number, size in enumerate(sizes)}


def groups(files: dict[str, int], policy: CompactionPolicy = THREE) -> list[list[int]]:
    """The sizes of the files in each merge that is due."""
    return [[files[path] for path in group] for group in due_groups(files, policy)]


def test_so_many_files_of_like_size_are_merged() -> None:
    assert groups(files_of([1, 2])) == []
    assert groups(files_of([1, 2, 3])) == [[1, 2, 3]]
    assert groups(files_of([1, 100 * KB, 2, 200 * KB])) == []
    assert groups(files_of([1, 100 * KB, 2, 200 * KB, 300 * KB])) == [[100 * KB, 200 * KB, 300 * KB]]
    assert groups({**files_of([1, 2]), **files_of([3, 4], pubend="r")}) == []


def test_what_is_large_stays_and_nothing_becomes_too_large() -> None:
    assert groups(files_of([500 * KB] * 5)) == []
    assert groups(files_of([400 * KB] * 7)) == []
    assert groups(files_of([300 * KB] * 7)) == [[300 * KB] * 3] * 2


def test_a_day_that_is_over_is_merged_to_the_end() -> None:
    past = files_of([1, 100 * KB], day=14)
    assert groups(past) == []
    assert groups({**past, **files_of([1], day=15)}) == [[1, 100 * KB]]
    assert groups({**past, **files_of([1], day=15, pubend="r")}) == []


def test_a_policy_that_cannot_be_is_refused() -> None:
    for wrong in ({"files_min": 1}, {"target_bytes": 0}, {"keep_ms": -1}):
        with pytest.raises(MisuseError):
            CompactionPolicy(**wrong)


def opened(root: Path, batches: int) -> TableStore:
    store = TableStore(LocalFiles(root), PUBLICATIONS)
    store.open("stream", is_new=True)
    for number in range(batches):
        # The ticks of later batches are lower, to see that the merge puts them in order.
        store.publish(number, staged(store, batch_of([100 - 2 * number, 101 - 2 * number])))
    return store


def test_rows_are_in_the_order_of_their_ticks(tmp_path: Path) -> None:
    store = opened(tmp_path, 3)
    paths = [Path(store.files.location(path)) for path in store.current()]
    assert merge_files(paths, tmp_path / "all.parquet", PUBLICATIONS) == 6
    merged = pq.ParquetFile(tmp_path / "all.parquet")
    assert merged.read().column("message_id").to_pylist() == [f"id-q-{number}" for number in range(96, 102)]
    assert (merged.num_row_groups, merged.schema_arrow.metadata[b"penstock.schema_version"]) == (1, b"1")


def test_only_batches_that_cannot_come_again_are_merged(tmp_path: Path) -> None:
    store = opened(tmp_path, 4)
    compactor = Compactor(store, THREE)
    assert compactor.run(before_batch=2, now_ms=0) == 0
    assert compactor.run(before_batch=3, now_ms=0) == 1
    folder = f"publications/date={DATE}/pubend=q"
    assert list(store.current()) == [f"{folder}/b000000000003-0000.parquet", f"{folder}/c000000000000.parquet"]
    assert ids(store.files) == expected(*range(94, 102))
    assert compactor.merges == 1


def test_a_file_that_cannot_be_read_is_left_alone_and_named(tmp_path: Path) -> None:
    store = opened(tmp_path, 4)
    broken = next(iter(store.current()))
    (tmp_path / broken).write_bytes(b"PAR1 is not enough")
    compactor = Compactor(store, THREE)
    assert compactor.run(before_batch=9, now_ms=0) == 1
    assert list(compactor.unreadable) == [broken]
    assert sorted(path.rpartition("/")[2] for path in store.current()) == [
        "b000000000000-0000.parquet",
        "c000000000000.parquet",
    ]


def test_no_more_merges_than_allowed_at_a_time(tmp_path: Path) -> None:
    store = opened(tmp_path, 1)
    for pubend in ("r", "s"):
        for number in range(3):
            store.publish(len(store.current()) + 1, staged(store, batch_of([number], pubend=pubend)))
    compactor = Compactor(store, THREE)
    assert [compactor.run(before_batch=99, now_ms=0, merges_max=1) for _ in range(3)] == [1, 1, 0]
