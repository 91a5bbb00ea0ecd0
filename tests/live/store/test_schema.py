"""The tables of a store, new and old."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from live.store.old_stores import old_store
from live.store.support import append, opened, tamper
from penstock.live.store.index import read_index
from penstock.live.store.schema import bring_up_to_date, make_tables, old_problems
from penstock.model.tick import TickRange


def test_new_tables_are_sealed() -> None:
    ids = []
    for _ in range(2):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            make_tables(database, "o", "b1")
            index = read_index(database)
        assert (index.problems, index.totals.commits) == ([], 1)
        ids.append(index.totals.store_id)
    assert ids[0] != ids[1]


def test_rows_of_an_older_format_are_sealed(tmp_path: Path) -> None:
    for version in (1, 2):
        (tmp_path / str(version)).mkdir()
        old_store(tmp_path / str(version), version)
        with closing(sqlite3.connect(tmp_path / str(version) / "store.sqlite", isolation_level=None)) as database:
            assert old_problems(database) == []
            bring_up_to_date(database)
            index = read_index(database)
            assert (index.problems, index.totals.highest_tick, index.totals.batches.rows) == ([], 50, 1)
            assert index.totals.kept.rows == version - 1


def test_a_body_that_is_damaged_before_it_is_sealed_stays_so(tmp_path: Path) -> None:
    old_store(tmp_path, 2)
    tamper(tmp_path, "DELETE FROM bodies")
    with opened(tmp_path) as store:
        assert store.damaged("p") == [TickRange(1, 5)]  # type: ignore[arg-type]
        append(store, 6, 6)


def test_a_store_of_this_format_is_not_taken_for_an_older_one(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as database:
        assert old_problems(database) == ["the number of its format is damaged"]
