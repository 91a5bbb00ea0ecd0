"""Batches and merges happen once, wherever the process ends; and readers find every row once between all steps."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from penstock.model.lake_tables import PUBLICATIONS
from penstock.pipeline.lake.compaction import merge_files
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.lake.store import TableStore
from pipeline.lake.lakes import DATE, BreakingFiles, Crash, batch_of, expected, ids, staged


def opened(files: LocalFiles, *, is_new: bool = True) -> TableStore:
    store = TableStore(files, PUBLICATIONS)
    store.open("stream", is_new=is_new)
    return store


def publish(store: TableStore, number: int, *numbers: int) -> list[str]:
    return store.publish(number, staged(store, batch_of(numbers), batch_of(numbers, pubend="r")), f"offsets {number}")


def both(*numbers: int) -> Counter[str]:
    return expected(*numbers) + expected(*numbers, pubend="r")


def merge(store: TableStore, *, keep_ms: int = 0, now_ms: int = 0) -> str:
    inputs = [path for path in store.current() if "pubend=q" in path]
    output = f"{store.staging('compaction')}/merged.parquet"
    files = store.files
    merge_files([Path(files.location(path)) for path in inputs], Path(files.location(output)), PUBLICATIONS)
    return store.compact(inputs, output, now_ms=now_ms, keep_ms=keep_ms)


def test_a_batch_counts_once_under_names_that_carry_its_number(tmp_path: Path) -> None:
    store = opened(LocalFiles(tmp_path))
    names = [f"publications/date={DATE}/pubend={each}/b000000000007-0000.parquet" for each in "qr"]
    assert publish(store, 7, 1, 2) == names
    assert list(store.current()) == names
    assert publish(store, 7, 1, 2) == []
    assert publish(store, 3, 9) == []
    assert ids(store.files) == both(1, 2)
    assert not store.has(8, "offsets 8")


def test_a_number_that_stands_for_other_offsets_is_refused(tmp_path: Path) -> None:
    store = opened(LocalFiles(tmp_path))
    publish(store, 0, 1)
    with pytest.raises(LakeError, match=r"batch 0 of .* stood for other offsets before"):
        store.has(0, "others")


def test_a_batch_without_rows_changes_nothing(tmp_path: Path) -> None:
    store = opened(LocalFiles(tmp_path))
    before = store.journal
    assert store.publish(0, [], "nothing") == []
    assert store.journal == before


class Work:
    """Something that is interrupted in a table of two batches; Spark brings a batch again, and nobody a merge."""

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._is_merge = root, name == "merge"
        store = opened(LocalFiles(root / "base"))
        publish(store, 0, 1)
        publish(store, 1, 2)
        self.before = both(1, 2)
        self.after = self.before if self._is_merge else both(1, 2, 3, 4)
        files = self.prepared("all")
        self.do(opened(files, is_new=False))
        self.steps = len(files.story)

    def prepared(self, name: str) -> BreakingFiles:
        """A table with the two batches."""
        shutil.copytree(self._root / "base", self._root / name)
        return BreakingFiles(self._root / name)

    def do(self, store: TableStore) -> None:
        merge(store) if self._is_merge else publish(store, 2, 3, 4)

    def again(self, store: TableStore) -> None:
        if not self._is_merge:
            self.do(store)


@pytest.mark.parametrize("name", ["publish", "merge"])
def test_whatever_step_a_process_ends_at_the_next_one_mends_it(tmp_path: Path, name: str) -> None:
    work = Work(tmp_path, name)
    assert work.steps >= 12
    for step in range(work.steps):
        files = work.prepared(str(step))
        store = opened(files, is_new=False)
        files.left = step
        with pytest.raises(Crash):
            work.do(store)
        assert ids(LocalFiles(files.root)) in (work.before, work.after), step
        again = opened(LocalFiles(files.root), is_new=False)
        work.again(again)
        assert ids(again.files) == work.after, step
        assert again.current() == again.files.listed("publications"), "nothing is left for plain readers to see twice"
        assert not again.files.exists("publications/_staging/compaction")


@pytest.mark.parametrize("name", ["publish", "merge"])
def test_recovery_may_be_interrupted_anywhere_as_well(tmp_path: Path, name: str) -> None:
    work = Work(tmp_path, name)
    interrupted = 0
    for step in range(work.steps):
        for second in range(9):
            files = work.prepared(f"{step}-{second}")
            store = opened(files, is_new=False)
            files.left = step
            with pytest.raises(Crash):
                work.do(store)
            files.left = second
            try:
                opened(files, is_new=False)
            except Crash:
                interrupted += 1
            else:
                break
            again = opened(LocalFiles(files.root), is_new=False)
            work.again(again)
            assert ids(again.files) == work.after, (step, second)
    assert interrupted > 20


def test_readers_find_every_row_once_between_all_steps(tmp_path: Path) -> None:
    files = BreakingFiles(tmp_path)
    store = opened(files)
    publish(store, 0, 1)
    publish(store, 1, 2)
    seen: list[Counter[str]] = []
    files.on_step = lambda: seen.append(ids(LocalFiles(tmp_path)))
    publish(store, 2, 3)
    assert [each for each in seen if each not in (both(1, 2), both(1, 2, 3))] == []
    # A batch comes into sight as a whole.
    assert seen == sorted(seen, key=lambda each: each.total())
    seen.clear()
    merge(store)
    assert len(seen) >= 12
    assert all(each == both(1, 2, 3) for each in seen)


def test_everything_is_synced_before_the_journal_says_so(tmp_path: Path) -> None:
    files = BreakingFiles(tmp_path)
    store = opened(files)
    publish(store, 0, 1)
    written = staged(store, batch_of([2]))
    files.story.clear()
    store.publish(1, written)
    journal = ["write ._journal.json.new", "rename _journal.json", "sync publications"]
    moved = ["rename b000000000001-0000.parquet", "sync pubend=q", "sync life"]
    assert files.story == ["sync life", *journal, *moved, *journal]
    files.story.clear()
    merge(store)
    moved = ["rename c000000000000.parquet", "sync pubend=q", "sync compaction"]
    deleted = ["unlink b000000000000-0000.parquet", "unlink b000000000001-0000.parquet", "sync pubend=q"]
    begun = files.story.index("sync compaction")
    assert files.story[begun:] == ["sync compaction", *journal, *moved, *journal, *deleted, *journal]


def test_merged_files_are_kept_as_long_as_they_shall_be(tmp_path: Path) -> None:
    store = opened(LocalFiles(tmp_path))
    inputs = [path for number in (0, 1) for path in publish(store, number, number + 1) if "pubend=q" in path]
    merged = merge(store, keep_ms=1_000, now_ms=5_000)
    assert merged == f"publications/date={DATE}/pubend=q/c000000000000.parquet"
    assert all(store.files.exists(path) for path in inputs)
    assert ids(store.files) == both(1, 2)
    store.sweep(now_ms=5_999, keep_ms=1_000)
    assert all(store.files.exists(path) for path in inputs)
    store.sweep(now_ms=6_000, keep_ms=1_000)
    assert not any(store.files.exists(path) for path in inputs)
    assert ids(store.files) == both(1, 2)
    publish(store, 2, 3)
    assert merge(store, now_ms=7_000).endswith("c000000000001.parquet")


def test_a_start_forgets_what_was_kept_and_what_was_staged(tmp_path: Path) -> None:
    store = opened(LocalFiles(tmp_path))
    for number in (0, 1):
        publish(store, number, number)
    merge(store, keep_ms=1_000_000)
    staged(store, batch_of([8]), name="an attempt")
    again = opened(LocalFiles(tmp_path), is_new=False)
    assert again.journal.compactions == ()
    assert again.current() == again.files.listed("publications")
    assert not again.files.exists("publications/_staging")


def test_a_table_goes_on_only_with_its_own_checkpoint(tmp_path: Path) -> None:
    publish(opened(LocalFiles(tmp_path)), 0, 1)
    with pytest.raises(LakeMismatchError, match="was written from another checkpoint, which is gone"):
        TableStore(LocalFiles(tmp_path), PUBLICATIONS).open("another", is_new=True)
    (tmp_path / "publications/_journal.json").unlink()
    with pytest.raises(LakeMismatchError, match="its files have no journal"):
        opened(LocalFiles(tmp_path))
    with pytest.raises(LakeMismatchError, match="it has gone, but its checkpoint has not"):
        opened(LocalFiles(tmp_path / "elsewhere"), is_new=False)


def test_a_staged_file_that_has_gone_is_told_as_damage(tmp_path: Path) -> None:
    files = BreakingFiles(tmp_path)
    store = opened(files)
    written = staged(store, batch_of([1]))
    files.left = 3
    with pytest.raises(Crash):
        store.publish(0, written)
    (tmp_path / written[0].path).unlink()
    with pytest.raises(LakeError, match="disappeared before it was moved into place: the lake is damaged"):
        opened(LocalFiles(tmp_path), is_new=False)
