"""Restoring a backup: as a whole or not at all, and never over somebody else's store."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from live.store.interruptions import STEPS, Interruptions
from live.store.support import append, contents, everything, opened, tamper, ticks_of
from live.store.test_backups import backed_up
from penstock.live.store import (
    BackupError,
    LogStore,
    SetValue,
    StoreDamagedError,
    StoreLockedError,
    StoreOwnerError,
    StoreRefusedError,
)
from penstock.live.store.backups import NOTE_NAME
from penstock.live.store.inspecting import FILE_NAME, UNFINISHED
from penstock.live.store.restoring import Restored, Restoring, restore
from penstock.live.store.witness import WITNESS_NAME
from penstock.model.tick import Tick, TickRange


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of the ticks 1 to 10 of a store that has gone on."""
    with opened(tmp_path / "store") as store:
        append(store, 1, 5)
        append(store, 6, 10)
    backed_up(tmp_path / "store", tmp_path / "backup")
    with opened(tmp_path / "store") as store:
        append(store, 11, 20)
    return tmp_path / "backup"


def restored(backup: Path, folder: Path, *, force: bool = False, damaged: bool = False) -> Restored:
    return restore(Restoring(backup, folder, "one", may_replace=force, may_be_damaged=damaged))


def ticks(folder: Path) -> list[int]:
    with opened(folder) as store:
        return ticks_of(everything(store))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_backup_becomes_a_store(tmp_path: Path, backup: Path, is_there: bool) -> None:
    if is_there:
        (tmp_path / "new").mkdir()
    before = contents(backup)
    done = restored(backup, tmp_path / "new")
    assert (done.proof.broker, done.aside, done.damaged) == ("b1", None, [])
    assert done.note is not None
    assert sorted(contents(tmp_path / "new")) == [FILE_NAME, WITNESS_NAME]
    assert ticks(tmp_path / "new") == list(range(1, 11))
    assert contents(backup) == before


def test_a_store_is_put_aside_on_demand_only(tmp_path: Path, backup: Path) -> None:
    store = tmp_path / "store"
    (store / "admin.token").write_text("t")
    before = contents(store)
    with pytest.raises(StoreRefusedError, match="has a store: --force puts it aside"):
        restored(backup, store)
    assert contents(store) == before
    done = restored(backup, store, force=True)
    assert done.aside == store / "replaced-one"
    assert ticks(store) == list(range(1, 11))
    assert ticks(done.aside) == list(range(1, 21))
    assert (store / "admin.token").read_text() == "t"
    # A folder of that name is never written over.
    with pytest.raises(StoreRefusedError, match="exists already"):
        restored(backup, store, force=True)


def test_a_folder_with_other_files_of_its_broker_gets_the_store_beside_them(tmp_path: Path, backup: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "admin.token").write_text("t")
    assert restored(backup, tmp_path / "new").aside is None
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == ["admin.token", FILE_NAME, WITNESS_NAME]
    assert ticks(tmp_path / "new") == list(range(1, 11))


def test_a_store_of_another_broker_is_never_replaced(tmp_path: Path, backup: Path) -> None:
    with closing(LogStore.open(tmp_path / "b2", overlay="o", broker="b2", reserve_bytes=0)) as store:
        store.commit([SetValue("v", b"1")])
    before = contents(tmp_path / "b2")
    with pytest.raises(StoreOwnerError, match="belongs to broker 'b2' of overlay 'o', and the backup to broker 'b1'"):
        restored(backup, tmp_path / "b2", force=True)
    assert contents(tmp_path / "b2") == before


def test_a_damaged_store_gives_way(tmp_path: Path, backup: Path) -> None:
    tamper(tmp_path / "store", "DELETE FROM batches")
    assert restored(backup, tmp_path / "store", force=True).aside is not None
    assert ticks(tmp_path / "store") == list(range(1, 11))


def test_stores_in_use_are_neither_restored_nor_replaced(tmp_path: Path, backup: Path) -> None:
    with opened(tmp_path / "store"):
        with pytest.raises(StoreLockedError, match="in use by a broker: it is no backup"):
            restored(tmp_path / "store", tmp_path / "new")
        with pytest.raises(StoreLockedError):
            restored(backup, tmp_path / "store", force=True)
    assert not (tmp_path / "new").exists()


def test_a_damaged_backup_is_refused_and_damaged_messages_are_taken_on_demand(tmp_path: Path, backup: Path) -> None:
    shutil.copytree(backup, tmp_path / "worse")
    tamper(backup, "UPDATE bodies SET stored=x'00' WHERE place=2")
    before = contents(tmp_path / "store")
    with pytest.raises(BackupError, match="is damaged: messages of pubend p: ticks 6 to 10; nothing was changed"):
        restored(backup, tmp_path / "store", force=True)
    assert contents(tmp_path / "store") == before
    done = restored(backup, tmp_path / "store", force=True, damaged=True)
    assert done.proof.pubends["p"].damaged == (TickRange(Tick(6), Tick(10)),)
    tamper(tmp_path / "worse", "DELETE FROM batches")
    with pytest.raises(StoreDamagedError):
        restored(tmp_path / "worse", tmp_path / "new", damaged=True)
    assert not (tmp_path / "new").exists()


def test_damage_that_was_there_when_the_backup_was_made_is_only_told(tmp_path: Path, backup: Path) -> None:
    tamper(tmp_path / "store", "UPDATE bodies SET stored=x'00' WHERE place=2")
    backed_up(tmp_path / "store", tmp_path / "second")
    done = restored(tmp_path / "second", tmp_path / "new")
    assert done.damaged == ["messages of pubend p: ticks 6 to 10"]


def test_a_backup_that_a_broker_has_used_is_no_backup_any_more(tmp_path: Path, backup: Path) -> None:
    with opened(backup) as store:
        append(store, 11, 12)
    with pytest.raises(StoreRefusedError, match="a broker has used it since"):
        restored(backup, tmp_path / "new")
    (backup / NOTE_NAME).unlink()
    assert restored(backup, tmp_path / "new").note is None
    assert ticks(tmp_path / "new") == list(range(1, 13))


def test_a_plain_copy_of_a_killed_store_is_restored_with_its_log(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        append(store, 1, 10)
        shutil.copytree(tmp_path / "store", tmp_path / "plain")
    assert restored(tmp_path / "plain", tmp_path / "new").note is None
    assert sorted(contents(tmp_path / "new")) == [FILE_NAME, WITNESS_NAME]
    assert ticks(tmp_path / "new") == list(range(1, 11))


def test_a_backup_is_only_read(backup: Path) -> None:
    with pytest.raises(StoreRefusedError, match=r"backup/x is inside of .*/backup: name a folder elsewhere"):
        restored(backup, backup / "x")
    assert not (backup / "x").exists()


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(StoreRefusedError, match="there is no"):
            restored(folder, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_after_an_interruption_restoring_again_gives_the_same(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    (tmp_path / "copies").mkdir()
    interruptions = Interruptions(store, tmp_path / "copies")
    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(os, name, interruptions.before(getattr(os, name)))
        restored(backup, store, force=True)
    wanted = list(range(1, 11))
    stages = set()
    for copy in interruptions.taken:
        if (copy / "replaced-one").exists():
            stages.add("done")
            assert ticks(copy) == wanted
            continue
        if (copy / UNFINISHED).exists():
            stages.add("between")
            with pytest.raises(StoreDamagedError, match="interrupted, and must be run again"), opened(copy):
                pass
        else:
            stages.add("before")
            shutil.copytree(copy, tmp_path / "untouched")
            assert ticks(tmp_path / "untouched") == list(range(1, 21))
            shutil.rmtree(tmp_path / "untouched")
        done = restored(backup, copy, force=True)
        assert done.aside is not None
        assert (ticks(copy), ticks(done.aside)) == (wanted, list(range(1, 21)))
    assert stages == {"before", "between", "done"}
