"""The ledger remembers what was shipped, and which batch is on its way."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.live.shipping import ledger as ledger_module
from penstock.live.shipping.ledger import FILE_NAME, Batch, Event, Ledger
from penstock.live.shipping.rows import Version


def opened(folder: Path) -> Ledger:
    ledger, is_anew = Ledger.open(folder)
    assert not is_anew
    return ledger


def test_what_counts_is_remembered_by_the_next_life(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "data")
    assert ledger.next_sequence() == 1
    ledger.count(Batch(1, [("a", "b")], {"x": Version(7), "y": Version(8, is_final=True)}))
    ledger.close()
    ledger = opened(tmp_path / "data")
    assert (ledger.next_sequence(), ledger.versions(["x", "y", "z"])) == (2, {"x": 7, "y": 8})
    assert ledger.unsettled(["x", "y", "z"]) == ["x", "z"]
    assert ledger.pending() == {1: [("a", "b")]}
    ledger.done(1)
    assert (ledger.pending(), ledger.versions(["x"])) == ({}, {"x": 7})


def test_a_lost_batch_is_to_be_shipped_again(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.count(Batch(1, [("a", "b")], {"x": Version(7, is_final=True)}))
    ledger.undo(1)
    assert (ledger.pending(), ledger.unsettled(["x"]), ledger.next_sequence()) == ({}, ["x"], 2)


def test_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.count(Batch(1, versions={"x": Version(7), "y": Version(1)}))
    ledger.count(Batch(2, gone=["x"]))
    assert ledger.versions(["x", "y"]) == {"y": 1}


def test_a_batch_counts_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.remember(Event(5, "start"))
    with pytest.raises(OverflowError):
        ledger.count(Batch(1, versions={"x": Version(2**70)}, events_up_to=1))
    assert (ledger.next_sequence(), len(ledger.events()), ledger.versions(["x"])) == (1, 1, {})


def test_names_are_found_by_prefix_and_many_at_once(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    names = [f"durable/p/{number:04}" for number in range(1_200)]
    ledger.count(Batch(1, versions=dict.fromkeys([*names, "durablf", "durable"], Version(1, is_final=True))))
    assert ledger.names("durable/") == names
    assert len(ledger.versions(names)) == 1_200
    assert ledger.unsettled([*names, "new"]) == ["new"]


def test_sealed_filters_that_were_shipped_are_listed_oldest_first(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    settled = {"c": 300, "a": 100, "b": 200, "open": 0}
    ledger.count(Batch(1, versions={name: Version(1, settled_ms=ms) for name, ms in settled.items()}))
    assert ledger.settled(300, 10) == ["a", "b"]
    assert ledger.settled(1_000, 1) == ["a"]


def test_events_wait_in_order_and_go_with_their_batch(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.remember(Event(5, "link-up", "b2"))
    ledger.remember(Event(6, "link-down", "b2"))
    first, second = ledger.events()
    assert (first.at_ms, first.event, first.neighbour, second.event) == (5, "link-up", "b2", "link-down")
    ledger.count(Batch(1, events_up_to=first.number))
    assert ledger.events() == [second]


def test_events_that_wait_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "_EVENTS_MAX", 3)
    ledger = opened(tmp_path)
    for ms in range(5):
        ledger.remember(Event(ms, "link-up"))
    assert [each.at_ms for each in ledger.events()] == [2, 3, 4]
    assert ledger.events_dropped == 2


@pytest.mark.parametrize("content", [b"not a database, whatever its name may say" * 9, b""])
def test_a_damaged_ledger_is_put_aside_and_an_empty_one_begun(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    ledger, is_anew = Ledger.open(tmp_path)
    assert is_anew == bool(content)
    assert (tmp_path / f"{FILE_NAME}.damaged").exists() == bool(content)
    assert ledger.next_sequence() == 1


def test_a_ledger_of_another_format_is_put_aside(tmp_path: Path) -> None:
    opened(tmp_path).close()
    database = sqlite3.connect(tmp_path / FILE_NAME)
    database.execute("PRAGMA user_version=99")
    database.close()
    assert Ledger.open(tmp_path)[1]


def test_a_folder_that_cannot_be_written_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(sqlite3.OperationalError):
        Ledger.open(tmp_path)
