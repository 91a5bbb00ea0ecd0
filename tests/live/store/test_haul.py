"""What is read from a damaged database."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.store.old_stores import old_store
from live.store.support import DAMAGED_VALUES, append, break_table, opened, tamper
from penstock.live.store import Append, KeepRecord, SetValue
from penstock.live.store.haul import Haul, haul_from
from penstock.live.store.inspecting import reading
from penstock.model.tick import Tick


def fill(path: Path) -> None:
    with opened(path) as store:
        for tick in range(1, 400):
            append(store, tick, tick)
        store.commit([Append("p", lease=Tick(1_000), sequences={b"x": 1, b"y": 2}), Append("q")])
        store.commit([SetValue("v", b"1"), SetValue("w", b"2"), KeepRecord("a", b"1"), KeepRecord("b", b"2")])


def hauled(path: Path) -> Haul:
    with reading(path) as database:
        return haul_from(database, path)


def test_a_whole_store_is_hauled_without_a_doubt(tmp_path: Path) -> None:
    fill(tmp_path)
    haul = hauled(tmp_path)
    assert (haul.doubtful, haul.owner, haul.highest_tick) == (set(), ("o", "b1"), 1_000)
    assert (sorted(haul.pubends), haul.pubends["p"].lease) == (["p", "q"], 1_000)
    assert [batch.ticks.first for batch in haul.batches[1]] == list(range(1, 400))
    assert haul.sequences == {1: {b"x": 1, b"y": 2}}
    assert (haul.values, haul.kept) == ([("v", b"1"), ("w", b"2")], [("a", b"1"), ("b", b"2")])
    with reading(tmp_path) as database:
        assert haul.messages(database, haul.batches[1][0]) == [(1, b"\1" * 10)]


def test_rows_that_do_not_prove_whole_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path)
    tamper(tmp_path, "UPDATE batches SET last=last+1 WHERE place=7")
    tamper(tmp_path, "UPDATE publishers SET sequence=9 WHERE publisher=x'78'")
    tamper(tmp_path, "UPDATE kept SET place=9 WHERE name='a'")
    tamper(tmp_path, DAMAGED_VALUES + " WHERE name='v'")
    haul = hauled(tmp_path)
    assert haul.doubtful == {"batches", "publishers", "kept", "named"}
    assert 7 not in [batch.ticks.first for batch in haul.batches[1]]
    assert len(haul.batches[1]) == 398
    assert haul.sequences == {1: {b"y": 2}}
    # A value that cannot be read leaves its name behind.
    assert (haul.values, haul.kept) == ([("v", b""), ("w", b"2")], [("b", b"2")])


@pytest.mark.parametrize("name", [None, b"v"])
def test_a_value_whose_name_is_damaged_is_left_out(tmp_path: Path, name: object) -> None:
    fill(tmp_path)
    tamper(tmp_path, "ALTER TABLE named RENAME TO other")
    tamper(tmp_path, "CREATE TABLE named AS SELECT * FROM other")
    tamper(tmp_path, "UPDATE named SET name=?, stored=1 WHERE name='v'", name)
    haul = hauled(tmp_path)
    assert "named" in haul.doubtful
    assert haul.values == [("w", b"2")]


def test_a_pubend_whose_row_is_damaged_is_still_known_by_name(tmp_path: Path) -> None:
    fill(tmp_path)
    tamper(tmp_path, "UPDATE pubends SET lease=1")
    haul = hauled(tmp_path)
    assert {name: (pubend.number, pubend.is_whole) for name, pubend in haul.pubends.items()} == {
        "p": (1, False),
        "q": (2, False),
    }


def test_what_lies_on_both_sides_of_a_damaged_page_is_read(tmp_path: Path) -> None:
    fill(tmp_path)
    with reading(tmp_path) as database:
        content = (tmp_path / "store.sqlite").read_bytes()
        (root,) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name='batches'").fetchone()
    # The second child of the page at the top, by its first cell pointer behind a head of twelve bytes.
    top = content[(root - 1) * 4_096 : root * 4_096]
    cell = int.from_bytes(top[14:16])
    child = int.from_bytes(top[cell : cell + 4])
    changed = bytearray(content)
    changed[(child - 1) * 4_096 : child * 4_096] = b"\xff" * 4_096
    (tmp_path / "store.sqlite").write_bytes(changed)
    firsts = [batch.ticks.first for batch in hauled(tmp_path).batches[1]]
    assert (firsts[0], firsts[-1]) == (1, 399)
    assert 200 < len(firsts) < 399


def test_without_a_table_the_rest_is_read(tmp_path: Path) -> None:
    fill(tmp_path)
    break_table(tmp_path, "batches")
    haul = hauled(tmp_path)
    assert (haul.batches, haul.sequences) == ({}, {1: {b"x": 1, b"y": 2}})
    assert haul.doubtful == {"batches"}


def test_an_older_format_is_recognised(tmp_path: Path) -> None:
    old_store(tmp_path, 2)
    assert hauled(tmp_path).is_older
    fill(tmp_path / "new")
    assert not hauled(tmp_path / "new").is_older
