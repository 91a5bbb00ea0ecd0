"""Copying a store while it goes on: the copy is the store of the last moment, or there is none."""

from __future__ import annotations

import resource
from pathlib import Path
from random import Random

import pytest

from live.store.support import append, everything, opened, sequences, ticks_of
from penstock.live.store import Append, BackupError, KeepRecord, SetValue, Trim
from penstock.live.store.checking import check
from penstock.live.store.inspecting import FILE_NAME, LOG_NAME
from penstock.model.tick import Tick


def nothing(_left: int, _total: int) -> None:
    pass


def folder_for(path: Path) -> Path:
    (path / "copy").mkdir()
    return path / "copy"


@pytest.mark.parametrize("seed", range(4))
def test_commits_between_slices_are_in_the_copy(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    copy = folder_for(tmp_path)
    with opened(tmp_path / "store") as store:
        append(store, 1, 3_000, size=1_000)
        last = 3_000
        slices = 0

        def between(left: int, total: int) -> None:
            nonlocal last, slices
            assert 0 < left <= total
            slices += 1
            for _ in range(rng.randrange(3)):
                count = rng.randrange(1, 40)
                messages = [(Tick(tick), rng.randbytes(200)) for tick in range(last + 1, last + count + 1)]
                last += count
                store.commit([Append("p", messages, Tick(last + 5), {b"x": last}), SetValue("v", b"%d" % last)])
            if rng.random() < 0.3:
                store.commit([Trim("p", Tick(rng.randrange(last))), KeepRecord(f"r/{last}", bytes(5_000))])

        store.back_up(copy, between)
        wanted = (everything(store, bytes_max=1 << 20), sequences(store), store.recovered())
        assert slices > 10
    assert check(copy).is_whole
    with opened(copy) as store:
        assert (everything(store, bytes_max=1 << 20), sequences(store), store.recovered()) == wanted


def test_a_failed_commit_between_slices_leaves_no_trace_in_the_copy(tmp_path: Path) -> None:
    copy = folder_for(tmp_path)
    with opened(tmp_path / "store", bytes_max=4 << 20) as store:
        append(store, 1, 2_500, size=1_000)
        refused = 0

        def between(_left: int, _total: int) -> None:
            nonlocal refused
            if refused < 2:
                refused += 1
                with pytest.raises(Exception, match="is full"):
                    append(store, 5_001, 9_000, size=1_000)
                store.commit([SetValue("v", b"%d" % refused)])

        store.back_up(copy, between)
    assert refused == 2
    with opened(copy) as store:
        assert ticks_of(everything(store, bytes_max=1 << 20)) == list(range(1, 2_501))
        assert store.value("v") == b"2"


def test_an_exception_ends_the_copy_and_leaves_no_file(tmp_path: Path) -> None:
    copy = folder_for(tmp_path)

    def between(_left: int, _total: int) -> None:
        raise ZeroDivisionError

    with opened(tmp_path / "store") as store:
        append(store, 1, 1_000, size=1_000)
        with pytest.raises(ZeroDivisionError):
            store.back_up(copy, between)
        append(store, 1_001, 1_010)
    assert list(copy.iterdir()) == []
    assert check(tmp_path / "store").is_whole


def test_a_full_disk_leaves_no_file_and_a_store_that_goes_on(tmp_path: Path) -> None:
    copy = folder_for(tmp_path)
    with opened(tmp_path / "store") as store:
        append(store, 1, 4_000, size=1_000)
        store.move_log()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, hard))
        try:
            with pytest.raises(BackupError, match=r"the copy in .* failed"):
                store.back_up(copy, nothing)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert list(copy.iterdir()) == []
        append(store, 4_001, 4_010)
    assert check(tmp_path / "store").messages == 4_010


def test_a_file_that_is_there_is_not_touched(tmp_path: Path) -> None:
    copy = folder_for(tmp_path)
    (copy / FILE_NAME).write_bytes(b"mine")
    with opened(tmp_path / "store") as store:
        append(store, 1, 10)
        with pytest.raises(BackupError, match="cannot be made: File exists"):
            store.back_up(copy, nothing)
        (copy / FILE_NAME).unlink()
        (copy / FILE_NAME).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(BackupError, match="cannot be made"):
            store.back_up(copy, nothing)
    assert not (tmp_path / "elsewhere").exists()
    assert not (copy / LOG_NAME).exists()
