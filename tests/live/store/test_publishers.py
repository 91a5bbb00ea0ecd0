"""Rows of publishers that stay in memory are those of the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.store.support import numbered, opened, sequences
from penstock.live.store import Append, ForgetPublishers, StoreFailedError, publishers
from penstock.live.store.index import read_index
from penstock.live.store.publishers import check_row, padded_count
from penstock.model.tick import Tick


@pytest.mark.parametrize("bound", [0, 1, 3, 100])
def test_however_many_are_remembered_the_totals_are_right(
    tmp_path: Path, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishers, "PUBLISHERS_MAX", bound)
    with opened(tmp_path) as store:
        for turn in range(1, 9):
            rising = {bytes([each]): 10 * turn - each for each in range(turn, turn + 5)}
            store.commit([Append("p", numbered(turn, turn), sequences=rising), Append("q", sequences={b"x": turn})])
            store.commit([Append("p", sequences={bytes([turn]): 0})])
            if turn == 5:
                store.commit([ForgetPublishers("p", Tick(3))])
            assert len(store._publishers._known) <= bound
            assert read_index(store._database).problems == []
        assert sequences(store).get(bytes([8])) == 72
        assert len(sequences(store)) == 10


def test_a_commit_that_fails_leaves_what_is_remembered(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([Append("p", numbered(1, 1), sequences={b"x": 1})])
        store._database.execute("PRAGMA query_only=ON")
        with pytest.raises(StoreFailedError):
            store.commit([Append("p", numbered(2, 2), sequences={b"x": 2, b"y": 2})])
        assert list(store._publishers._known) == [(1, b"x")]
        assert store._publishers._known[1, b"x"][0] == 1


def test_a_row_that_changes_under_a_running_store_ends_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([Append("p", numbered(1, 1), sequences={b"x": 1})])
        store._publishers._known.clear()
        store._database.execute("UPDATE publishers SET sequence=7")
        for _ in range(2):
            with pytest.raises(StoreFailedError, match="a row of the index is damaged"):
                store.commit([Append("p", numbered(2, 2), sequences={b"x": 2})])
        with pytest.raises(StoreFailedError, match="a row of publishers is damaged"):
            store.recovered()


def test_a_row_is_checked() -> None:
    check_row(lambda one, two: one + two, (1, 2), 3)
    for row in ((1, 3), (1, "x")):
        with pytest.raises(StoreFailedError):
            check_row(lambda one, two: one + two, row, 3)


def test_the_next_power_of_two() -> None:
    assert [padded_count(count) for count in (1, 2, 3, 4, 5, 127, 128)] == [1, 2, 4, 4, 8, 128, 128]
