"""Examining the files of a store before anything is changed."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from live.store.support import append, contents, everything, opened, tamper, ticks_of
from penstock.live.store import KeepRecord, LogStore, NotAStoreError, StoreDamagedError
from penstock.live.store.inspecting import FILE_NAME, LOG_NAME, inspect
from penstock.live.store.witness import WITNESS_NAME, Witness


def lives(path: Path) -> LogStore:
    """An open store with copies of its folder: ``first`` and ``second``, both of them as a kill would leave them."""
    store = LogStore.open(path / "store", overlay="o", broker="b1", reserve_bytes=0)
    append(store, 1, 5)
    store.commit([KeepRecord("mark", b"1")])
    shutil.copytree(path / "store", path / "first")
    store.commit([KeepRecord("mark", b"2")])
    assert store.move_log()
    append(store, 6, 9)
    shutil.copytree(path / "store", path / "second")
    return store


def refused(folder: Path, words: str) -> None:
    before = contents(folder)
    with pytest.raises(StoreDamagedError, match=words), opened(folder):
        pass
    assert contents(folder) == before


def test_a_kill_leaves_nothing_to_complain_of(tmp_path: Path) -> None:
    lives(tmp_path).close()
    for name in ("first", "second"):
        before = contents(tmp_path / name)
        with closing(Witness(tmp_path / name)) as witness:
            found = inspect(tmp_path / name, witness.statement)
        assert (found.problems, found.repairs, found.owner) == ([], [], ("o", "b1"))
        assert contents(tmp_path / name) == before
        with opened(tmp_path / name) as store:
            assert len(everything(store)) == (5 if name == "first" else 9)


@pytest.mark.parametrize("has_witness", [True, False])
@pytest.mark.parametrize(
    ("file", "words"),
    [(FILE_NAME, "store.sqlite is older than store.sqlite-wal"), (LOG_NAME, "store.sqlite-wal is older")],
)
def test_files_of_different_times_are_refused(tmp_path: Path, file: str, words: str, has_witness: bool) -> None:
    lives(tmp_path).close()
    shutil.copyfile(tmp_path / "first" / file, tmp_path / "second" / file)
    if not has_witness:
        (tmp_path / "second" / WITNESS_NAME).unlink()
    refused(tmp_path / "second", words)


def test_an_older_witness_does_no_harm(tmp_path: Path) -> None:
    lives(tmp_path).close()
    shutil.copyfile(tmp_path / "first" / WITNESS_NAME, tmp_path / "second" / WITNESS_NAME)
    with opened(tmp_path / "second") as store:
        assert ticks_of(everything(store)) == list(range(1, 10))


def test_an_older_database_alone_is_refused(tmp_path: Path) -> None:
    lives(tmp_path).close()
    (tmp_path / "second" / LOG_NAME).unlink()
    refused(tmp_path / "second", "1 of 5 commits are missing")
    shutil.copyfile(tmp_path / "second" / FILE_NAME, tmp_path / "store" / FILE_NAME)
    refused(tmp_path / "store", "1 of 5 commits are missing")


def test_the_witness_of_another_store_is_not_believed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with opened(tmp_path / name):
            pass
    shutil.copyfile(tmp_path / "one" / WITNESS_NAME, tmp_path / "two" / WITNESS_NAME)
    refused(tmp_path / "two", "witness and store.sqlite are of different stores")


@pytest.mark.parametrize("kept", [WITNESS_NAME, LOG_NAME])
@pytest.mark.parametrize("is_empty", [True, False])
def test_no_store_is_made_where_one_has_been(tmp_path: Path, kept: str, is_empty: bool) -> None:
    lives(tmp_path).close()
    (tmp_path / "second" / FILE_NAME).unlink()
    if is_empty:
        (tmp_path / "second" / FILE_NAME).touch()
    for name in {WITNESS_NAME, LOG_NAME} - {kept}:
        (tmp_path / "second" / name).unlink()
    refused(tmp_path / "second", f"store.sqlite is missing or empty, but {kept} is there")


@pytest.mark.parametrize("version", [1, 2])
def test_a_damaged_number_of_the_format_is_not_believed(tmp_path: Path, version: int) -> None:
    with opened(tmp_path):
        pass
    tamper(tmp_path, f"PRAGMA user_version={version}")
    refused(tmp_path, f"has format {version}, but its witness saw 1 commits of format 3")
    (tmp_path / WITNESS_NAME).unlink()
    refused(tmp_path, "the number of its format is damaged")


def test_a_database_that_cannot_be_read_beside_its_log_leaves_no_other_file(tmp_path: Path) -> None:
    lives(tmp_path).close()
    with (tmp_path / "second" / FILE_NAME).open("r+b") as file:
        file.write(b"\xff" * 4_096)
    (tmp_path / "second" / LOG_NAME).write_bytes((tmp_path / "second" / LOG_NAME).read_bytes()[:5_000])
    refused(tmp_path / "second", "store.sqlite")


def test_something_else_beside_a_witness_is_a_damaged_store(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    (tmp_path / FILE_NAME).write_bytes(b"hello" * 1_000)
    refused(tmp_path, "store.sqlite cannot be read")
    (tmp_path / WITNESS_NAME).unlink()
    with pytest.raises(NotAStoreError), opened(tmp_path):
        pass
    assert [each.name for each in tmp_path.iterdir()] == [FILE_NAME]
