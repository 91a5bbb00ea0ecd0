"""The index of a store: no change of any row goes unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.store.support import contents, numbered, opened, tamper
from penstock.live.store import Append, SetValue, StoreDamagedError, Trim
from penstock.live.store.index import read_index
from penstock.live.store.pubend_state import PubendState
from penstock.model.tick import Tick

DAMAGES = {
    "pubends": [
        "UPDATE pubends SET lease=lease-1",
        "UPDATE pubends SET lease=NULL",
        "UPDATE pubends SET last=5",
        "UPDATE pubends SET trimmed=trimmed+1",
        "UPDATE pubends SET name='r' WHERE name='q'",
        "UPDATE pubends SET name=x'ff' WHERE name='q'",
        "UPDATE pubends SET checksum=checksum+1",
        "DELETE FROM pubends WHERE name='q'",
    ],
    "batches": [
        "UPDATE batches SET first=first-1",
        "UPDATE batches SET last=last+1",
        "UPDATE batches SET messages=messages+1",
        "UPDATE batches SET messages='x'",
        "UPDATE batches SET bytes=bytes-1",
        "UPDATE batches SET place=7",
        "UPDATE batches SET body=0",
        "UPDATE batches SET pubend=7",
        "DELETE FROM batches WHERE place=1",
        "INSERT INTO batches SELECT 2, first, last, messages, bytes, place, body, checksum FROM batches WHERE pubend=1",
    ],
    "publishers": [
        "UPDATE publishers SET sequence=sequence+1",
        "UPDATE publishers SET sequence=1.5",
        "UPDATE publishers SET tick=tick+1",
        "UPDATE publishers SET publisher='x'",
        "UPDATE publishers SET publisher=x'00'",
        "DELETE FROM publishers",
    ],
    "named": [
        "UPDATE named SET name='w'",
        "UPDATE named SET stored=zeroblob(5)",
        "UPDATE named SET stored='text'",
        "DELETE FROM named",
        "INSERT INTO named VALUES ('w', x'0011223344')",
    ],
    "totals": ["UPDATE totals SET stored=zeroblob(length(stored))", "DELETE FROM totals", "DROP TABLE totals"],
    "definitions": ["DROP TABLE bodies", "UPDATE owner SET broker='b2'", "CREATE TABLE more (x)"],
}


def fill(path: Path) -> None:
    with opened(path) as store:
        store.commit([Append("p", numbered(1, 9), Tick(50), {b"x": 3}), Append("q", numbered(5, 9))])
        store.commit([Append("p", numbered(15, 19)), Trim("q", Tick(6)), SetValue("v", b"1")])


def test_it_gives_the_states_of_all_pubends(tmp_path: Path) -> None:
    fill(tmp_path)
    with opened(tmp_path) as store:
        index = read_index(store._database)
        assert index.problems == []
        states = {name: (state.first_tick, state.last_tick, state.lease) for name, state in index.states.items()}
        assert states == {"p": (1, 19, 50), "q": (6, 9, None)}
        assert isinstance(index.states["p"], PubendState)
        assert (index.states["p"].message_count, index.states["p"].size_bytes) == (14, 140)


@pytest.mark.parametrize(("table", "damage"), [(table, each) for table, some in DAMAGES.items() for each in some])
def test_a_changed_index_is_refused_and_left_as_it_is(tmp_path: Path, table: str, damage: str) -> None:
    fill(tmp_path)
    tamper(tmp_path, damage)
    before = contents(tmp_path)
    with pytest.raises(StoreDamagedError, match=table) as caught, opened(tmp_path):
        pass
    assert contents(tmp_path) == before
    # Python says of a value of the wrong type what a bytes-like object is.
    assert "object" not in str(caught.value)


def test_all_that_is_damaged_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    tamper(tmp_path, "DELETE FROM named")
    tamper(tmp_path, "UPDATE publishers SET sequence=9")
    with pytest.raises(StoreDamagedError) as caught, opened(tmp_path):
        pass
    assert caught.value.problems == (
        "table publishers is damaged: the row of publisher b'x' was changed",
        "table named has 0 rows that are not the 1 written last",
    )
