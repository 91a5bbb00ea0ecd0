"""Kept records: written with a commit, found at a start by their beginnings, and never silently missing."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from live.store.kept_support import filter_record, value_of
from live.store.support import append, break_table, everything, opened, tamper
from penstock.broker.durable import needed_at_start
from penstock.live.store import KeepRecord, KeptPart, LogStore, StoreFullError
from penstock.live.store.database import FILE_NAME
from penstock.live.store.errors import StoreFailedError, StoreRefusedError

CLOSED, OPEN = filter_record(1), filter_record(2, is_open=True)


def read(store: LogStore, *names: str, bytes_max: int = 1 << 20) -> dict[str, bytes | None]:
    return store.read_kept(names, bytes_max=bytes_max).values


def bodies(path: Path) -> int:
    with closing(sqlite3.connect(path / FILE_NAME)) as database:
        (count,) = database.execute("SELECT count(*) FROM kept_bodies").fetchone()
    return int(count)


def test_a_start_finds_beginnings_of_closed_filters_and_all_of_the_rest(tmp_path: Path) -> None:
    mark, large = KeepRecord("mark", b"m"), KeepRecord("alias/x", bytes(50_000))
    with opened(tmp_path) as store:
        store.commit([CLOSED, OPEN, mark, large])
    with opened(tmp_path) as store:
        kept = store.recovered().kept
        assert list(kept) == [CLOSED.name, OPEN.name, "mark", "alias/x"]
        assert kept[CLOSED.name] == needed_at_start(CLOSED.name, value_of(CLOSED))
        assert len(kept[CLOSED.name]) < 200
        assert [kept[each.name] for each in (OPEN, mark, large)] == [value_of(each) for each in (OPEN, mark, large)]
        assert (store.kept_found.damaged, store.kept_found.is_put_aside) == ([], False)
        assert read(store, large.name, CLOSED.name) == {large.name: large.value, CLOSED.name: CLOSED.value}


def test_records_are_found_in_the_order_in_which_they_were_last_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([KeepRecord(name, b"1") for name in "cab"])
        store.commit([KeepRecord("c", b"2"), KeepRecord("d", b"2"), KeepRecord("a", None), KeepRecord("c", b"3")])
        assert list(store.recovered().kept.items()) == [("b", b"1"), ("d", b"2"), ("c", b"3")]


def test_the_last_word_of_a_commit_counts_and_leaves_nothing_else(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([KeepRecord("a", b"1"), KeepRecord("b", b"1"), KeepRecord("a", None), KeepRecord("b", b"2")])
        store.commit([KeepRecord("c", None), KeepRecord("b", b"3"), KeepRecord("d", None), KeepRecord("d", b"4")])
        assert read(store, "a", "b", "c", "d") == {"a": None, "b": b"3", "c": None, "d": b"4"}
    assert bodies(tmp_path) == 2


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
def test_any_number_of_records_is_written_replaced_and_removed_at_once(tmp_path: Path, count: int) -> None:
    names = [f"gap/{number}" for number in range(count)]
    with opened(tmp_path) as store:
        store.commit([KeepRecord(name, name.encode()) for name in names])
        store.commit([KeepRecord(name, name.encode() * 2) for name in reversed(names)])
        expected = {name: name.encode() * 2 for name in reversed(names)}
        assert list(store.recovered().kept.items()) == list(expected.items())
        assert read(store, *names) == expected
        store.commit([KeepRecord(name, None) for name in names[1:]])
        assert list(store.recovered().kept) == names[:1]
    assert bodies(tmp_path) == 1


def test_a_filter_that_is_closed_is_not_found_whole_any_more(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([filter_record(1, is_open=True)])
        assert store.recovered().kept[CLOSED.name] == filter_record(1, is_open=True).value
        store.commit([filter_record(1, generation=2)])
        assert len(store.recovered().kept[CLOSED.name]) < 200
        assert read(store, CLOSED.name) == {CLOSED.name: filter_record(1, generation=2).value}


def test_a_read_is_bounded_but_gives_one_at_least(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([KeepRecord(name, bytes(10)) for name in "abcd"])
        assert list(read(store, "d", "x", "b", "a", bytes_max=20)) == ["d", "x", "b"]
        assert list(read(store, "d", "b", bytes_max=0)) == ["d"]
        assert list(read(store, "x", "d", "y", bytes_max=9)) == ["x"]
        assert list(read(store, "a", "a", "b", bytes_max=20)) == ["a", "b"]
        assert store.read_kept((), bytes_max=9) == KeptPart({}, [])


def test_a_commit_that_fails_leaves_the_total_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path, bytes_max=1 << 20) as store:
        store.commit([CLOSED])
        tally = store._books.totals.kept
        with pytest.raises(StoreFullError):
            store.commit([OPEN, KeepRecord("large", bytes(2 << 20))])
        assert (store._books.totals.kept, tally.rows) == (tally, 1)
        store.commit([OPEN])
    with opened(tmp_path) as store:
        assert list(store.recovered().kept) == [CLOSED.name, OPEN.name]


def test_removals_make_room_for_what_comes_in_the_same_commit(tmp_path: Path) -> None:
    with opened(tmp_path, bytes_max=1 << 20) as store:
        store.commit([KeepRecord("old", bytes(600_000))])
        store.commit([KeepRecord("new", bytes(600_000)), KeepRecord("old", None)])
        store.commit([KeepRecord("new", bytes(650_000))])
        assert list(store.recovered().kept) == ["new"]


def test_a_full_store_still_takes_small_records(tmp_path: Path) -> None:
    with opened(tmp_path, bytes_max=1 << 20) as store:
        with pytest.raises(StoreFullError):
            store.commit([KeepRecord("large", bytes(2 << 20))])
        store.commit([KeepRecord("mark", bytes(1_000))])
        assert read(store, "mark", "large") == {"mark": bytes(1_000), "large": None}


def test_a_damaged_body_is_missing_and_named_but_a_closed_filter_is_still_known(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([CLOSED, OPEN, KeepRecord("mark", b"m")])
    tamper(tmp_path, "UPDATE kept_bodies SET stored=zeroblob(length(stored))")
    with opened(tmp_path) as store:
        kept = store.recovered().kept
        assert [len(kept[name]) > 0 for name in (CLOSED.name, OPEN.name, "mark")] == [True, False, False]
        assert store.kept_found.damaged == [OPEN.name, "mark"]
        names = (CLOSED.name, OPEN.name, "nobody")
        assert store.read_kept(names, bytes_max=100) == KeptPart(dict.fromkeys(names), [CLOSED.name, OPEN.name])
        # Its space is left alone, and a record of the same name is as good as ever.
        store.commit([KeepRecord("mark", b"n"), KeepRecord(OPEN.name, None)])
        assert read(store, "mark", OPEN.name) == {"mark": b"n", OPEN.name: None}
        assert store.recovered().kept["mark"] == b"n"
        assert store.kept_found.damaged == []
    assert bodies(tmp_path) == 4


def test_a_damaged_beginning_is_found_in_the_body(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([CLOSED])
        expected = store.recovered().kept
    tamper(tmp_path, "UPDATE kept SET start=x'00'")
    with opened(tmp_path) as store:
        assert (store.recovered().kept, store.kept_found.damaged) == (expected, [])


INDEX_DAMAGES = [
    "UPDATE kept SET name='mork' WHERE name='mark'",
    "UPDATE kept SET name=x'ff' WHERE name='mark'",
    "UPDATE kept SET place=place+1",
    "UPDATE kept SET place='x'",
    "UPDATE kept SET place=-1",
    "UPDATE kept SET checksum=0 WHERE name='mark'",
    "UPDATE kept SET checksum='x' WHERE name='mark'",
    "DELETE FROM kept WHERE name='mark'",
    "INSERT INTO kept SELECT 'more', place, checksum, start FROM kept WHERE name='mark'",
]


@pytest.mark.parametrize("damage", INDEX_DAMAGES)
def test_with_a_damaged_index_all_is_put_aside_and_nothing_else_harmed(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5)
        store.commit([CLOSED, KeepRecord("mark", b"m")])
    for _ in range(2):
        tamper(tmp_path, damage)
        with opened(tmp_path) as store:
            assert store.recovered().kept == {}
            assert store.kept_found.is_put_aside
            assert len(everything(store)) == 5
            assert read(store, CLOSED.name) == {CLOSED.name: None}
            store.commit([KeepRecord("mark", b"n"), OPEN])
        with opened(tmp_path) as store:
            assert list(store.recovered().kept) == ["mark", OPEN.name]
            assert not store.kept_found.is_put_aside


def test_a_life_that_cannot_write_fails_but_the_next_one_begins_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5)
        store.commit([CLOSED, KeepRecord("mark", b"m")])
    break_table(tmp_path, "kept_bodies")
    with opened(tmp_path) as store:
        assert list(store.recovered().kept) == [CLOSED.name, "mark"]
        assert store.kept_found.damaged == ["mark"]
        with pytest.raises(StoreFailedError, match="malformed"):
            store.commit([OPEN])
    with opened(tmp_path) as store:
        assert store.recovered().kept == {}
        # In the life that failed, nobody heard that they are lost.
        assert store.kept_found.is_put_aside
        store.commit([OPEN])
        append(store, 6, 6)
        assert (list(store.recovered().kept), len(everything(store))) == ([OPEN.name], 6)


def test_no_place_is_used_twice(tmp_path: Path) -> None:
    """An older page with the same name and place would pass as the newest version of a record."""
    places = []
    for _ in range(2):
        with opened(tmp_path) as store:
            for value in (b"1", None, b"2"):
                store.commit([KeepRecord("mark", value)])
                places += store._database.execute("SELECT place FROM kept").fetchall()
    assert len(set(places)) == len(places) == 4


def scribbled(path: Path, copy: Path, rng: Random) -> None:
    """A copy of a closed store with a few random bytes somewhere behind the first pages."""
    shutil.copytree(path, copy)
    with (copy / FILE_NAME).open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(rng.randrange(3 * 4_096, size))
        file.write(rng.randbytes(rng.choice([1, 8, 200])))


def test_whatever_is_scribbled_over_nothing_is_silently_wrong(tmp_path: Path) -> None:
    rng = Random(8)
    records = [filter_record(number, is_open=number % 10 == 0, size_bytes=1_000) for number in range(60)]
    records += [KeepRecord(f"attachment/{number:012x}", bytes([number]) * 60) for number in range(60)]
    with opened(tmp_path / "store") as store:
        append(store, 1, 5)
        store.commit(records)
        sound = dict(store.recovered().kept)
    outcomes = set()
    for turn in range(150):
        copy = tmp_path / f"copy-{turn}"
        scribbled(tmp_path / "store", copy, rng)
        try:
            with opened(copy) as store:
                outcomes.add(judged(store, records, sound))
        except (StoreFailedError, StoreRefusedError):
            # The log's own index was hit.
            outcomes.add("refused")
        shutil.rmtree(copy)
    assert outcomes >= {"sound", "damaged", "put aside"}


def judged(store: LogStore, records: list[KeepRecord], sound: dict[str, bytes]) -> str:
    kept = store.recovered().kept
    if store.kept_found.is_put_aside:
        assert kept == {}
        return "put aside"
    assert kept.keys() == sound.keys()
    assert [name for name, value in kept.items() if value != sound[name]] == store.kept_found.damaged
    part = store.read_kept([each.name for each in records], bytes_max=1 << 30)
    wrong = [each.name for each in records if part.values[each.name] != each.value]
    assert wrong == part.damaged
    return "damaged" if wrong else "sound"
