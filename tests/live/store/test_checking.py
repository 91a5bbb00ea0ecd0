"""Checking a whole store, without changing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.store.old_stores import old_store
from live.store.support import DAMAGED_VALUES, append, contents, opened, tamper
from penstock.live.store import KeepRecord, SetValue, StoreLockedError, StoreRefusedError
from penstock.live.store.checking import Checked, check
from penstock.live.store.witness import WITNESS_NAME
from penstock.model.tick import Tick, TickRange


def fill(path: Path) -> None:
    with opened(path) as store:
        append(store, 1, 5)
        append(store, 11, 15)
        store.commit([SetValue("v", b"1"), KeepRecord("a", b"1")])


def checked(path: Path) -> Checked:
    before = contents(path)
    found = check(path)
    assert contents(path) == before
    return found


def test_a_whole_store(tmp_path: Path) -> None:
    fill(tmp_path)
    found = checked(tmp_path)
    assert found == Checked(str(tmp_path), messages=10)
    assert found.is_whole


def test_a_missing_witness_is_noted_only(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / WITNESS_NAME).unlink()
    found = checked(tmp_path)
    assert found.is_whole
    assert len(found.notes) == 1


def test_damaged_messages_and_records_are_named(tmp_path: Path) -> None:
    fill(tmp_path)
    tamper(tmp_path, "UPDATE bodies SET stored=x'00' WHERE place=2")
    tamper(tmp_path, "UPDATE kept_bodies SET stored=x'00'")
    tamper(tmp_path, DAMAGED_VALUES)
    found = checked(tmp_path)
    assert not found.is_whole
    assert (found.problems, found.damaged, found.messages) == ([], {"p": [TickRange(Tick(11), Tick(15))]}, 5)
    assert len(found.records) == 2


def test_a_damaged_index_is_told(tmp_path: Path) -> None:
    fill(tmp_path)
    tamper(tmp_path, "DELETE FROM batches")
    found = checked(tmp_path)
    assert found.problems == ["table batches has 0 rows that are not the 2 written last"]
    assert not found.is_whole


def test_an_older_format_is_told(tmp_path: Path) -> None:
    old_store(tmp_path, 1)
    found = checked(tmp_path)
    assert (found.format, found.is_whole) == (1, True)


def test_where_there_is_no_store_there_is_nothing_to_check(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(StoreRefusedError, match="there is no"):
            check(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_use_is_not_checked(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreLockedError):
        check(tmp_path)
