"""Opening the right file, and being alone with it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from live.store.old_stores import old_store
from live.store.support import append, contents, everything, opened, sequences, tamper, ticks_of
from penstock.live.store import (
    Append,
    KeepRecord,
    LogStore,
    NotAStoreError,
    Recovery,
    StoreDamagedError,
    StoreLockedError,
    StoreOwnerError,
    StoreRefusedError,
    StoreVersionError,
)
from penstock.live.store.database import FILE_NAME, FORMAT_VERSION
from penstock.live.store.inspecting import LOG_NAME
from penstock.live.store.witness import WITNESS_NAME

HOLDER = """
import sys
from pathlib import Path
from penstock.live.store import LogStore
store = LogStore.open(Path(sys.argv[1]), overlay="o", broker="b1")
print("open", flush=True)
sys.stdin.read()
"""


def test_a_new_store_is_made_with_its_folders(tmp_path: Path) -> None:
    with opened(tmp_path / "deep" / "store") as store:
        assert store.recovery == Recovery(created=True, clean=True, replayed_bytes=0, dropped_bytes=0)
    with opened(tmp_path / "deep" / "store") as store:
        assert store.recovery == Recovery(created=False, clean=True, replayed_bytes=0, dropped_bytes=0)


@pytest.mark.parametrize(("overlay", "broker"), [("other", "b1"), ("o", "b2")])
def test_the_store_of_another_broker_or_overlay_is_refused(tmp_path: Path, overlay: str, broker: str) -> None:
    with opened(tmp_path):
        pass
    with pytest.raises(StoreOwnerError, match=f"belongs to broker 'b1' of overlay 'o', not to broker '{broker}'"):
        LogStore.open(tmp_path, overlay=overlay, broker=broker)
    with opened(tmp_path):
        pass


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    tamper(tmp_path, "PRAGMA user_version=7")
    with pytest.raises(StoreVersionError, match="has format 7, and this Penstock reads formats up to 3"):
        LogStore.open(tmp_path, overlay="o", broker="b1")


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_older_format_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    old_store(tmp_path, version)
    for turn in range(2):
        with opened(tmp_path) as store:
            assert (ticks_of(everything(store)), store.value("v")) == ([1, 2, 3, 4, 5], b"1")
            assert (store.lease("p"), sequences(store).get(b"x")) == (50, 3)
            assert not store.recovery.created
            assert not store.recovery.repaired
            assert store._database.execute("PRAGMA user_version").fetchone() == (FORMAT_VERSION,)
            old = {"old": b"o"} if version == 2 else {}
            assert store.recovered().kept == old | ({"mark": b"m"} if turn else {})
            assert not store.kept_found.is_put_aside
            store.commit([KeepRecord("mark", b"m"), Append("p", sequences={b"x": 3, b"y": turn})])


def test_kept_records_of_an_older_format_that_are_damaged_are_put_aside(tmp_path: Path) -> None:
    old_store(tmp_path, 2)
    tamper(tmp_path, "UPDATE kept_total SET digest=7")
    with opened(tmp_path) as store:
        assert store.recovered().kept == {}
        assert store.kept_found.is_put_aside
        assert ticks_of(everything(store)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("damage", ["last = first - 1", "messages = 0", "messages = 11", "pubend = 7"])
def test_an_index_of_an_older_format_that_cannot_be_right_is_refused(tmp_path: Path, damage: str) -> None:
    old_store(tmp_path, 2)
    tamper(tmp_path, f"UPDATE batches SET {damage}")
    before = contents(tmp_path)
    with pytest.raises(StoreDamagedError, match="1 batches are out of order"), opened(tmp_path):
        pass
    assert contents(tmp_path) == before


def test_the_store_of_another_broker_is_not_brought_up_to_date(tmp_path: Path) -> None:
    old_store(tmp_path, 1)
    before = contents(tmp_path)
    with pytest.raises(StoreOwnerError):
        LogStore.open(tmp_path, overlay="o", broker="b2")
    assert contents(tmp_path) == before


def test_a_foreign_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    tamper(tmp_path, "CREATE TABLE theirs (x)")
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(NotAStoreError, match="is a database, but not a store of Penstock"):
        LogStore.open(tmp_path, overlay="o", broker="b1")
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"hello" * 1_000)
    with pytest.raises(NotAStoreError, match="is not a store of Penstock"):
        LogStore.open(tmp_path, overlay="o", broker="b1")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreRefusedError, match="cannot be opened"):
        LogStore.open(tmp_path / "file", overlay="o", broker="b1")


def test_a_store_that_is_open_here_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreLockedError, match="only one broker"):
        LogStore.open(tmp_path, overlay="o", broker="b1")
    with opened(tmp_path):
        pass


def test_a_store_that_another_process_holds_is_refused(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StoreLockedError):
            LogStore.open(tmp_path, overlay="o", broker="b1")
        holder.communicate()
    with opened(tmp_path):
        pass


def crashed(path: Path, copy: Path) -> int:
    """What a crash would leave of a store with ten commits: its files as they are while it is open."""
    with opened(path) as store:
        for number in range(10):
            append(store, 10 * number + 1, 10 * number + 10)
        shutil.copytree(path, copy)
    return (copy / LOG_NAME).stat().st_size


def test_after_a_crash_everything_is_there_and_it_is_told(tmp_path: Path) -> None:
    log_bytes = crashed(tmp_path / "store", tmp_path / "copy")
    with opened(tmp_path / "copy") as store:
        assert not store.recovery.created
        assert not store.recovery.clean
        assert store.recovery.replayed_bytes + store.recovery.dropped_bytes == log_bytes
        assert ticks_of(everything(store)) == list(range(1, 101))


def test_a_torn_last_commit_is_left_out(tmp_path: Path) -> None:
    """As after a power failure: the commit was never acknowledged, so the witness has not seen it."""
    with opened(tmp_path / "store") as store:
        # Until the log is longer than the making of the store left it.
        for tick in range(1, 11):
            append(store, tick, tick)
        witness = (tmp_path / "store" / WITNESS_NAME).read_bytes()
        before = (tmp_path / "store" / LOG_NAME).stat().st_size
        append(store, 11, 20)
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
    (tmp_path / "copy" / WITNESS_NAME).write_bytes(witness)
    log_bytes = (tmp_path / "copy" / LOG_NAME).stat().st_size
    assert log_bytes > before
    for cut in range(1, log_bytes - before, 1_999):
        torn = tmp_path / f"torn-{cut}"
        shutil.copytree(tmp_path / "copy", torn)
        with (torn / LOG_NAME).open("r+b") as log:
            log.truncate(log_bytes - cut)
        with opened(torn) as store:
            assert ticks_of(everything(store)) == list(range(1, 11))
            assert store.recovery.dropped_bytes == log_bytes - cut - before
            append(store, 1_001, 1_001)


@pytest.mark.parametrize("cut", [1, 5_000, 60_000, 10**6])
def test_a_log_that_lost_acknowledged_commits_is_refused_and_left_as_it_is(tmp_path: Path, cut: int) -> None:
    log_bytes = crashed(tmp_path / "store", tmp_path / "copy")
    with (tmp_path / "copy" / LOG_NAME).open("r+b") as log:
        log.truncate(max(0, log_bytes - cut))
    before = contents(tmp_path / "copy")
    with pytest.raises(StoreDamagedError, match="penstock store salvage"), opened(tmp_path / "copy"):
        pass
    assert contents(tmp_path / "copy") == before


def test_the_files_of_a_damaged_store_are_left_as_they_are_even_without_a_witness(tmp_path: Path) -> None:
    log_bytes = crashed(tmp_path / "store", tmp_path / "copy")
    (tmp_path / "copy" / WITNESS_NAME).unlink()
    with (tmp_path / "copy" / LOG_NAME).open("r+b") as log:
        log.seek(log_bytes // 2)
        log.write(b"\xff" * 8)
    before = contents(tmp_path / "copy")
    with pytest.raises(StoreDamagedError, match="has commits behind a damaged place"), opened(tmp_path / "copy"):
        pass
    assert contents(tmp_path / "copy") == before


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        settings = {name: store._database.execute(f"PRAGMA {name}").fetchone()[0] for name in SETTINGS}
    assert settings == SETTINGS


SETTINGS = {"synchronous": 2, "journal_mode": "wal", "locking_mode": "exclusive", "fullfsync": 1}


def test_a_store_without_an_owner_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    tamper(tmp_path, "DELETE FROM owner")
    with pytest.raises(StoreDamagedError, match="or the owner are damaged"):
        LogStore.open(tmp_path, overlay="o", broker="b1")


def test_a_witness_that_is_missing_is_made_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 1)
    (tmp_path / WITNESS_NAME).unlink()
    with opened(tmp_path) as store:
        assert store.recovery.repaired == "the witness was missing or damaged, and was made anew"
    with opened(tmp_path) as store:
        assert not store.recovery.repaired


def test_an_empty_database_becomes_a_store(tmp_path: Path) -> None:
    """As after a kill between the making of the file and the first commit."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        database.execute("PRAGMA journal_mode=WAL")
    with opened(tmp_path) as store:
        assert store.recovery.created
        append(store, 1, 1)
