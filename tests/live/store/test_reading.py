"""Reading a log of which parts are damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from live.store.support import append, opened
from penstock.live.store import StoreFailedError, StoreFullError
from penstock.model.limits import BODY_BYTES_MAX
from penstock.model.tick import TICK_MAX, Tick, TickRange


def test_a_row_that_changes_under_a_running_store_is_not_believed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5)
        store._database.execute("UPDATE batches SET last=last-1")
        with pytest.raises(StoreFailedError, match="a row of batches is damaged"):
            store.read_part("p", Tick(1), TICK_MAX, bytes_max=1_000)
        store._database.execute("UPDATE batches SET last='x'")
        with pytest.raises(StoreFailedError):
            store.read_part("p", Tick(1), TICK_MAX, bytes_max=1_000)


def test_the_whole_body_of_another_batch_is_not_believed(tmp_path: Path) -> None:
    """Two pubends may have the same first tick, which is all that a body knows of its place."""
    with opened(tmp_path) as store:
        append(store, 1, 5, pubend="p", size=10)
        append(store, 1, 5, pubend="q", size=20)
        store._database.execute("UPDATE bodies SET stored=(SELECT stored FROM bodies WHERE place=2)")
        assert store.damaged("p") == [TickRange(Tick(1), Tick(5))]
        assert store.damaged("q") == []


def test_ticks_that_may_be_lost_are_read_as_damaged(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5)
        store.mark_lost("p", TickRange(Tick(6), Tick(90)))
        append(store, 91, 92)
    with opened(tmp_path) as store:
        part = store.read_part("p", Tick(4), TICK_MAX, bytes_max=1_000)
        assert ([tick for tick, _ in part.messages], part.last) == ([4, 5], 5)
        assert part.damaged is not None
        assert part.damaged.ticks == (6, 90)
        assert "an unknown number of messages" in str(part.damaged)
        assert (store.message_count("p"), store.last_tick("p")) == (7, 92)
        # They can be trimmed like others, in part and as a whole.
        store.trim("p", Tick(50))
        assert store.damaged("p") == [TickRange(Tick(50), Tick(90))]
        store.trim("p", Tick(92))
        assert (store.damaged("p"), store.first_tick("p")) == ([], 92)
    with opened(tmp_path) as store:
        assert store.message_count("p") == 1


def test_a_message_that_no_frame_can_carry_is_named_as_damaged_and_those_behind_it_are_read(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 1, size=BODY_BYTES_MAX)
        append(store, 2, 2, size=BODY_BYTES_MAX + 1)
        append(store, 3, 3)
        part = store.read_part("p", Tick(1), TICK_MAX, bytes_max=1 << 30)
        assert [tick for tick, _ in part.messages] == [1]
        assert part.damaged is not None
        assert part.damaged.ticks == (2, 2)
        assert [tick for tick, _ in store.read_part("p", Tick(3), TICK_MAX, bytes_max=1_000).messages] == [3]


class Starving:
    """A database that has no memory or descriptors when messages are asked for."""

    def __init__(self, database: Any, at: str, error: Exception) -> None:
        self._database, self._at, self._error = database, at, error

    def execute(self, statement: str, *parameters: Any) -> Any:
        if self._at in statement:
            raise self._error
        return self._database.execute(statement, *parameters)


def lacking(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("at", ["FROM bodies", "FROM batches"])
@pytest.mark.parametrize(
    "error", [lacking(sqlite3.SQLITE_CANTOPEN), lacking(sqlite3.SQLITE_IOERR_NOMEM), MemoryError()], ids=repr
)
def test_a_lack_of_descriptors_or_memory_is_neither_damage_nor_a_failed_disk(
    tmp_path: Path, at: str, error: Exception
) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5)
        database = store._database
        starving: Any = Starving(database, at, error)
        store._database = starving
        with pytest.raises(StoreFullError, match="lacks descriptors or memory"):
            store.read_part("p", Tick(1), TICK_MAX, bytes_max=1_000)
        with pytest.raises(StoreFullError, match="lacks descriptors or memory"):
            store.damaged("p")
        store._database = database
        assert len(store.read_part("p", Tick(1), TICK_MAX, bytes_max=1_000).messages) == 5
