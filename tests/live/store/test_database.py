"""Opening the right file, and being alone with it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from live.store.support import append, everything, opened, tamper, ticks_of
from penstock.live.store import (
    KeepRecord,
    LogStore,
    NotAStoreError,
    Recovery,
    SetValue,
    StoreLockedError,
    StoreOwnerError,
    StoreRefusedError,
    StoreVersionError,
)
from penstock.live.store.database import FILE_NAME, FORMAT_VERSION

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
    with pytest.raises(StoreVersionError, match="has format 7, and this Penstock reads formats up to 2"):
        LogStore.open(tmp_path, overlay="o", broker="b1")


def outdated(path: Path) -> None:
    """Take from a store what format 1 did not have."""
    for table in ("kept", "kept_bodies", "kept_total"):
        tamper(path, f"DROP TABLE {table}")
    tamper(path, "PRAGMA user_version=1")


def test_a_store_of_the_first_format_is_brought_up_to_date(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5)
        store.commit([SetValue("v", b"1")])
    outdated(tmp_path)
    for _ in range(2):
        with opened(tmp_path) as store:
            assert (ticks_of(everything(store)), store.value("v")) == ([1, 2, 3, 4, 5], b"1")
            assert not store.recovery.created
            assert store._database.execute("PRAGMA user_version").fetchone() == (FORMAT_VERSION,)
            store.commit([KeepRecord("mark", b"m")])
            assert store.recovered().kept == {"mark": b"m"}


def test_the_store_of_another_broker_is_not_brought_up_to_date(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    outdated(tmp_path)
    with pytest.raises(StoreOwnerError):
        LogStore.open(tmp_path, overlay="o", broker="b2")
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)


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
    return (copy / f"{FILE_NAME}-wal").stat().st_size


def test_after_a_crash_everything_is_there_and_it_is_told(tmp_path: Path) -> None:
    log_bytes = crashed(tmp_path / "store", tmp_path / "copy")
    with opened(tmp_path / "copy") as store:
        assert not store.recovery.created
        assert not store.recovery.clean
        assert store.recovery.replayed_bytes + store.recovery.dropped_bytes == log_bytes
        assert ticks_of(everything(store)) == list(range(1, 101))


def test_a_torn_tail_costs_whole_commits_at_the_end_only(tmp_path: Path) -> None:
    log_bytes = crashed(tmp_path / "store", tmp_path / "copy")
    kept = []
    for cut in range(0, log_bytes, 4_999):
        torn = tmp_path / f"torn-{cut}"
        shutil.copytree(tmp_path / "copy", torn)
        with (torn / f"{FILE_NAME}-wal").open("r+b") as log:
            log.truncate(log_bytes - cut)
        try:
            with opened(torn) as store:
                found = ticks_of(everything(store))
                append(store, 1_001, 1_001)
        except NotAStoreError:
            break
        assert found == list(range(1, len(found) + 1))
        assert len(found) % 10 == 0
        kept.append(len(found))
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == 100
    assert min(kept) < 30


def test_a_broken_byte_in_the_write_ahead_log_ends_it_there(tmp_path: Path) -> None:
    log_bytes = crashed(tmp_path / "store", tmp_path / "copy")
    with (tmp_path / "copy" / f"{FILE_NAME}-wal").open("r+b") as log:
        log.seek(log_bytes - 5_000)
        log.write(b"\xff" * 8)
    with opened(tmp_path / "copy") as store:
        assert store.recovery.dropped_bytes > 0
        assert ticks_of(everything(store)) == list(range(1, 91))


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        settings = {name: store._database.execute(f"PRAGMA {name}").fetchone()[0] for name in SETTINGS}
    assert settings == SETTINGS


SETTINGS = {"synchronous": 2, "journal_mode": "wal", "locking_mode": "exclusive", "fullfsync": 1}


def test_a_store_without_an_owner_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    tamper(tmp_path, "DELETE FROM owner")
    with pytest.raises(StoreOwnerError, match="belongs to nobody"):
        LogStore.open(tmp_path, overlay="o", broker="b1")


def test_an_empty_database_becomes_a_store(tmp_path: Path) -> None:
    """As after a kill between the making of the file and the first commit."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        database.execute("PRAGMA journal_mode=WAL")
    with opened(tmp_path) as store:
        assert store.recovery.created
        append(store, 1, 1)
