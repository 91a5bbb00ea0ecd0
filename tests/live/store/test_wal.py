"""The write-ahead log, read without SQLite."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from live.store.support import append, opened
from penstock.live.store.index import read_index
from penstock.live.store.inspecting import FILE_NAME, LOG_NAME
from penstock.live.store.wal import WriteAheadLog

FRAME = 4_120


def killed(path: Path, commits: int = 10) -> tuple[bytes, bytes]:
    """The log that a kill leaves of a store with so many commits, and the store's id."""
    with opened(path / "store") as store:
        for number in range(commits):
            append(store, number + 1, number + 1)
        shutil.copytree(path / "store", path / "copy")
        store_id = store._books.totals.store_id
    return (path / "copy" / LOG_NAME).read_bytes(), store_id


def frames_of_sqlite(path: Path) -> int:
    """How many frames SQLite itself believes."""
    with closing(sqlite3.connect(path / FILE_NAME)) as database:
        _, frames, _ = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(frames)


def test_a_whole_log_is_believed_to_its_end(tmp_path: Path) -> None:
    content, store_id = killed(tmp_path)
    log = WriteAheadLog(content)
    assert log.has_header
    assert log.whole_frames == log.frames == (len(content) - 32) // FRAME == frames_of_sqlite(tmp_path / "copy")
    assert not log.has_commits_behind_damage()
    assert [totals.commits for totals in log.totals(store_id)] == list(range(2, 12))
    assert log.totals(b"x" * 16) == []


@pytest.mark.parametrize("seed", range(8))
def test_it_ends_where_sqlite_ends_it(tmp_path: Path, seed: int) -> None:
    content, _ = killed(tmp_path)
    changed = bytearray(content)
    # The reserved bytes of no header are covered: damage the pages.
    frame = Random(seed).randrange(len(content) // FRAME)
    changed[32 + frame * FRAME + 24 + Random(seed).randrange(4_096)] ^= 1
    (tmp_path / "copy" / LOG_NAME).write_bytes(changed)
    log = WriteAheadLog(bytes(changed))
    assert log.whole_frames == frame
    assert frames_of_sqlite(tmp_path / "copy") <= frame


def test_commits_behind_a_damaged_one_are_seen_but_not_behind_a_torn_end(tmp_path: Path) -> None:
    content, _ = killed(tmp_path)
    log = WriteAheadLog(content)
    ends = [frame for frame, head in enumerate(log._heads) if head.pages]
    for frame in range(log.frames):
        changed = bytearray(content)
        changed[32 + frame * FRAME + 100] ^= 1
        is_last = frame > ends[-2]
        assert WriteAheadLog(bytes(changed)).has_commits_behind_damage() != is_last, frame
    for end in range(0, len(content), 1_999):
        assert not WriteAheadLog(content[:end]).has_commits_behind_damage()


def test_without_its_header_a_log_still_shows_its_totals(tmp_path: Path) -> None:
    content, store_id = killed(tmp_path)
    log = WriteAheadLog(b"\0" * 32 + content[32:])
    assert (log.has_header, log.whole_frames) == (False, 0)
    assert max(totals.commits for totals in log.totals(store_id)) == 11


@pytest.mark.parametrize("content", [b"", b"short", bytes(32), bytes(10_000)])
def test_what_is_no_log_has_nothing(content: bytes) -> None:
    log = WriteAheadLog(content)
    assert (log.has_header, log.whole_frames, log.has_commits_behind_damage()) == (False, 0, False)
    assert log.totals(bytes(16)) == []
    assert log.forced() == b""


def test_a_forced_log_goes_on_behind_the_damage(tmp_path: Path) -> None:
    content, _ = killed(tmp_path)
    log = WriteAheadLog(content)
    # The totals of the third commit, which every later commit writes again.
    at = [frame for frame in range(log.frames) if b"PenTotal" in log.image(frame)][3]
    changed = bytearray(content)
    changed[32 + at * FRAME + 4_000] ^= 1
    (tmp_path / "copy" / LOG_NAME).write_bytes(WriteAheadLog(bytes(changed)).forced())
    with closing(sqlite3.connect(tmp_path / "copy" / FILE_NAME)) as database:
        index = read_index(database)
        assert (index.problems, index.totals.commits) == ([], 11)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
