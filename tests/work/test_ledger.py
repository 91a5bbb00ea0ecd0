from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.work.ledger import PAGE_TASKS, DamagedLedgerError, Ledger, State
from penstock.work.terms import Terms
from work.stored import Stored

TERMS = Terms("g", "TRUE")


def test_what_nobody_has_used_is_not_written() -> None:
    ledger, stored = Ledger(TERMS, "alice", 10), Stored()
    assert [*stored.write(ledger)] == [""]
    task = ledger.add(11)
    ledger.add(12)
    assert stored.write(ledger) == {}
    ledger.touch(task)
    assert [*stored.write(ledger)] == ["1", ""]
    assert ledger.frontier == 12
    again = stored.restored()
    assert (again.terms, again.client, again.frontier, [*again.tasks]) == (TERMS, "alice", 12, [11, 12])


def test_pages_before_a_written_one_are_written_too() -> None:
    ledger, stored = Ledger(TERMS, "", 0), Stored()
    tasks = [ledger.add(tick) for tick in range(1, 2 * PAGE_TASKS + 2)]
    ledger.touch(tasks[-1])
    stored.write(ledger)
    assert {*stored.values} == {"", "1", "2", "3"}
    assert stored.restored().undone == len(tasks)


def test_a_page_that_has_grown_since_it_was_written_is_written_again_before_later_ones() -> None:
    ledger, stored = Ledger(TERMS, "", 0), Stored()
    ledger.touch(ledger.add(1))
    stored.write(ledger)
    tasks = [ledger.add(tick) for tick in range(2, PAGE_TASKS + 2)]
    ledger.touch(tasks[-1])
    stored.write(ledger)
    assert ledger.frontier == PAGE_TASKS + 1
    assert stored.restored().undone == PAGE_TASKS + 1
    assert {*ledger.names()} == {*stored.values}


def test_pages_on_which_all_is_done_are_dropped_after_a_while() -> None:
    ledger, stored = Ledger(TERMS, "", 0), Stored()
    for tick in range(1, 150 * PAGE_TASKS + 1):
        ledger.done(ledger.add(tick))
        stored.write(ledger)
    ledger.check_invariants()
    assert ledger.lowest() is None
    assert len(ledger.tasks) == len(stored.restored().tasks) == 128 * PAGE_TASKS
    assert stored.restored().frontier == 150 * PAGE_TASKS
    assert stored.restored().add(10**6).page == 152
    assert {*ledger.names()} == {*stored.values}


def test_damage_is_noticed() -> None:
    ledger, stored = Ledger(TERMS, "", 0), Stored()
    ledger.touch(ledger.add(1))
    stored.write(ledger)
    for name in ("", "1"):
        values = {**stored.values, name: b""}
        with pytest.raises(DamagedLedgerError, match="cannot be read"):
            Ledger.restored(values[""], {1: values["1"]})


@given(st.integers(0, 2**32))
def test_a_restored_ledger_knows_all_that_was_written(seed: int) -> None:
    rng = Random(seed)
    ledger, stored = Ledger(TERMS, "", 0), Stored()
    tick = 0
    written: dict[int, tuple[int, State]] = {}
    for _ in range(rng.randrange(1, 40)):
        if rng.random() < 0.5:
            # Often enough for more than a page.
            for _ in range(rng.randrange(1, 50)):
                tick += rng.randrange(1, 4)
                ledger.add(tick)
        for task in rng.choices([*ledger.undone_tasks()] or [ledger.add(tick := tick + 1)], k=rng.randrange(4)):
            if task.state is not State.DONE and rng.random() < 0.5:
                ledger.done(task)
            else:
                task.attempts += 1
                ledger.touch(task)
        ledger.check_invariants()
        if rng.random() < 0.7:
            stored.write(ledger)
            written = {task.tick: (task.attempts, task.state) for task in ledger.tasks.values()}
    if stored.values:
        again = stored.restored()
        again.check_invariants()
        for known, (attempts, state) in written.items():
            if known <= again.frontier:
                assert (again.tasks[known].attempts, again.tasks[known].state) == (attempts, state)
            else:
                assert (attempts, state) == (0, State.READY)
        added = again.add(tick + 1)
        assert added.page not in {task.page for task in again.tasks.values() if task is not added}


def test_pages_without_delays_are_read_as_well() -> None:
    ledger, stored = Ledger(TERMS, "", 0), Stored()
    task = ledger.add(1)
    task.state, task.until_ms, task.delay_ms = State.DELAYED, 7_000, 500
    ledger.touch(task)
    stored.write(ledger)
    again = stored.restored().tasks[1]
    assert (again.until_ms, again.delay_ms) == (7_000, 500)
    (fields,) = msgspec.msgpack.decode(stored.values["1"])
    stored.values["1"] = msgspec.msgpack.encode([fields[:-1]])
    assert (stored.restored().tasks[1].state, stored.restored().tasks[1].until_ms) == (State.DELAYED, 0)
