"""The totals of an open store follow every commit, in the database and in the witness."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.store.support import append, opened
from penstock.live.store import ChangeRefusedError, KeepRecord
from penstock.live.store.totals import load_totals
from penstock.live.store.witness import WITNESS_NAME, Statement


def noted(path: Path) -> list[int]:
    content = (path / WITNESS_NAME).read_bytes()
    slots = [Statement.decode(content[at : at + 48]) for at in (0, 4_096)]
    return sorted(slot.commits for slot in slots if slot is not None)


def test_every_commit_is_counted_and_noted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for tick in (1, 2, 3):
            append(store, tick, tick)
            stored = load_totals(store._database)
            assert stored == store._books.totals
            assert stored is not None
            assert noted(tmp_path) == [stored.commits - 1, stored.commits]
            assert (stored.commits, stored.highest_tick, stored.batches.rows) == (tick + 1, tick, tick)


def test_a_refused_commit_is_not_counted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 5, 5)
        before = store._books.totals
        with pytest.raises(ChangeRefusedError):
            append(store, 1, 1)
        assert store._books.totals == before == load_totals(store._database)


def test_putting_kept_records_aside_is_counted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([KeepRecord("mark", b"m")])
        before = store._books.totals.commits
        store._kept.put_aside()
        assert load_totals(store._database) == store._books.totals
        assert store._books.totals.commits == before + 1 == noted(tmp_path)[1]
    with opened(tmp_path) as store:
        assert store.recovered().kept == {}
