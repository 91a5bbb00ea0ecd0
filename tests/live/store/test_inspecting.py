"""Examining the files of a store before anything is changed."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from live.store.support import append, contents, everything, opened, tamper, ticks_of
from penstock.live.store import KeepRecord, LogStore, NotAStoreError, StoreDamagedError, StoreRefusedError
from penstock.live.store.inspecting import FILE_NAME, JOURNAL_NAME, LOG_NAME, RESERVE_NAME, inspect
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


def journal_of(path: Path, *, has_pages: bool = True) -> bytes:
    """A rollback journal that would be replayed: of a database that had pages, or of one that was being made."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size=1")
        if has_pages:
            database.execute("CREATE TABLE theirs (x)")
            database.execute("INSERT INTO theirs VALUES (zeroblob(100000))")
        database.execute("BEGIN")
        database.execute("CREATE TABLE more (x)")
        database.execute("INSERT INTO more VALUES (zeroblob(100000))")
        if has_pages:
            database.execute("UPDATE theirs SET x=zeroblob(99999)")
        journal = path.with_name(f"{path.name}-journal").read_bytes()
        database.execute("ROLLBACK")
    return journal


@pytest.mark.parametrize("has_pages", [True, False])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_rollback_journal_beside_a_store_is_refused(tmp_path: Path, has_pages: bool, is_closed: bool) -> None:
    store = lives(tmp_path)
    store.close()
    folder = tmp_path / ("store" if is_closed else "second")
    (folder / JOURNAL_NAME).write_bytes(journal_of(tmp_path / "theirs", has_pages=has_pages))
    refused(folder, "store.sqlite-journal does not belong to this store" if has_pages or is_closed else "store.sqlite")


def test_a_journal_that_a_kill_left_while_the_store_was_made_does_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / FILE_NAME).touch()
    (folder / JOURNAL_NAME).write_bytes(journal_of(tmp_path / "theirs", has_pages=False))
    with opened(folder) as store:
        assert store.recovery.created
        append(store, 1, 1)


@pytest.mark.parametrize("name", [FILE_NAME, LOG_NAME])
@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_file_that_is_a_symbolic_link_is_refused(tmp_path: Path, name: str, is_dangling: bool) -> None:
    lives(tmp_path).close()
    folder = tmp_path / "second"
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / ("nothing" if is_dangling else "elsewhere"))
    with pytest.raises(StoreRefusedError, match=f"{name} is a symbolic link"), opened(folder):
        pass
    assert not (tmp_path / "nothing").exists()


def test_a_folder_that_is_a_symbolic_link_is_as_good_as_its_target(tmp_path: Path) -> None:
    lives(tmp_path).close()
    (tmp_path / "link").symlink_to(tmp_path / "second")
    with opened(tmp_path / "link") as store:
        assert ticks_of(everything(store)) == list(range(1, 10))


@pytest.mark.parametrize("is_full", [True, False])
def test_a_folder_with_nothing_but_a_reserve_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    with opened(tmp_path, reserve_bytes=4_096) as store:
        append(store, 1, 1)
    for name in (FILE_NAME, WITNESS_NAME):
        (tmp_path / name).unlink()
    before = contents(tmp_path)
    assert list(before) == [RESERVE_NAME]
    if is_full:
        monkeypatch.setattr("penstock.live.store.log.disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(StoreRefusedError, match="only its file 'reserve' is left"), opened(tmp_path):
        pass
    assert contents(tmp_path) == before
