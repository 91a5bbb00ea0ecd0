"""The folder of a backup: there when it is whole and durable, and else not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.store.old_stores import old_store
from live.store.support import append, contents, opened, tamper
from penstock.live.store import (
    BackupError,
    StoreDamagedError,
    StoreLockedError,
    StoreRefusedError,
    StoreVersionError,
)
from penstock.live.store.backups import NOTE_NAME, SUFFIX, Note, copy_closed, finish, read_note, unfinished
from penstock.live.store.checking import check
from penstock.live.store.inspecting import FILE_NAME
from penstock.live.store.witness import WITNESS_NAME, read_statement


def nothing(_done: int, _total: int) -> None:
    pass


def filled(folder: Path) -> Path:
    with opened(folder) as store:
        append(store, 1, 5)
        append(store, 11, 15)
    return folder


def backed_up(store: Path, target: Path) -> Note:
    with unfinished(target) as made:
        copy_closed(store, made.folder, nothing)
        _, note = finish(made, now_ms=7, on_read=nothing)
    return note


def test_a_closed_store_is_copied_with_a_witness_and_a_note(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    before = contents(store)
    note = backed_up(store, tmp_path / "deep" / "backup")
    assert contents(store) == before
    assert sorted(contents(tmp_path / "deep" / "backup")) == [NOTE_NAME, FILE_NAME, WITNESS_NAME]
    assert (note.overlay, note.broker, note.made_ms, note.messages, note.damaged) == ("o", "b1", 7, 10, [])
    assert read_note(tmp_path / "deep" / "backup") == note
    said = read_statement(tmp_path / "deep" / "backup")
    assert said is not None
    assert (said.store_id.hex(), said.commits) == (note.store_id, note.commits)
    assert check(tmp_path / "deep" / "backup").is_whole
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "deep" / "backup").iterdir()} == {0o600}
    assert sorted(each.name for each in (tmp_path / "deep").iterdir()) == ["backup"]


def test_damaged_messages_are_as_damaged_in_the_backup_and_named(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    tamper(store, "UPDATE bodies SET stored=x'00' WHERE place=2")
    note = backed_up(store, tmp_path / "backup")
    assert note.damaged == ["messages of pubend p: ticks 11 to 15"]
    assert note.messages == 5


def test_stores_that_no_broker_opens_are_not_backed_up(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    tamper(store, "DELETE FROM batches")
    (tmp_path / "old").mkdir()
    old_store(tmp_path / "old", 2)
    cases = (
        (store, StoreDamagedError),
        (tmp_path / "old", StoreVersionError),
        (tmp_path / "none", StoreRefusedError),
        (tmp_path, StoreRefusedError),
    )
    for folder, error in cases:
        with pytest.raises(error):
            backed_up(folder, tmp_path / "backup")
    with opened(tmp_path / "used"), pytest.raises(StoreLockedError):
        backed_up(tmp_path / "used", tmp_path / "backup")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["old", "store", "used"]


def test_a_copy_that_is_damaged_is_thrown_away(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    with unfinished(tmp_path / "backup") as made:
        copy_closed(store, made.folder, nothing)
        tamper(made.folder, "DELETE FROM batches WHERE first<0")
        with pytest.raises(BackupError, match="the copy is damaged, and was thrown away: table batches"):
            finish(made, now_ms=7, on_read=nothing)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["store"]


def test_what_an_interrupted_backup_left_gives_way_and_nothing_else_does(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    left = tmp_path / f"backup{SUFFIX}"
    left.mkdir()
    (left / FILE_NAME).write_bytes(b"half")
    assert backed_up(store, tmp_path / "backup").messages == 10
    (tmp_path / f"other{SUFFIX}").mkdir()
    (tmp_path / f"other{SUFFIX}" / "diary").write_text("mine")
    with pytest.raises(StoreRefusedError, match="move it elsewhere"):
        backed_up(store, tmp_path / "other")
    assert contents(tmp_path / f"other{SUFFIX}") == {"diary": b"mine"}


def test_a_target_is_new_or_an_empty_folder(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    (tmp_path / "empty").mkdir()
    assert backed_up(store, tmp_path / "empty").messages == 10
    (tmp_path / "file").write_text("mine")
    for name in ("empty", "file"):
        with pytest.raises(StoreRefusedError, match="exists already: name a new folder"):
            backed_up(store, tmp_path / name)


def test_two_backups_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with (
        unfinished(tmp_path / "backup"),
        pytest.raises(StoreRefusedError, match="being written by another process"),
        unfinished(tmp_path / "backup"),
    ):
        pass


def test_a_note_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_note(tmp_path) is None
    for text in ("", "{}", '{"format": 1}', "\xff"):
        (tmp_path / NOTE_NAME).write_text(text)
        assert read_note(tmp_path) is None
