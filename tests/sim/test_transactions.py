"""Commits and reads count within their epoch only, and a row changes only as expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.sim.database import Connection, Row, Transaction
from penstock.sim.transactions import (
    ChangeRow,
    CommitChanges,
    Done,
    Fenced,
    Found,
    Look,
    Looked,
    Passed,
    ReadContent,
    Settle,
    Settled,
    breach_of,
)
from sim.shared import ANSWER_MS, HOME, Shared, appended


@pytest.fixture
def shared() -> Shared:
    return Shared()


def ask(shared: Shared, transaction: Transaction, connection: Connection | None = None) -> Any:
    connection = connection or shared.connected()
    assert connection is not None
    said: list[Any] = []
    connection.ask(transaction, answer_ms=ANSWER_MS).then(said.append)
    shared.run(2 * ANSWER_MS)
    return said[0]


def commit(number: int, *, epoch: int = 0) -> CommitChanges:
    return CommitChanges(HOME, epoch, number, (appended(number),))


def raise_epoch(version: int) -> ChangeRow:
    return ChangeRow(
        HOME,
        lambda row: row.version == version,
        lambda row, _: replace(row, epoch=row.epoch + 1, version=version + 1),
        raises_epoch=True,
    )


def ticks(shared: Shared) -> list[int]:
    return shared.database.content(HOME).disk.ticks("q")


def test_a_commit_of_a_former_epoch_does_nothing(shared: Shared) -> None:
    assert ask(shared, commit(1)) == Done()
    assert ask(shared, raise_epoch(0)) == Row(epoch=1, version=1)
    assert ask(shared, commit(2)) == Fenced()
    assert ask(shared, commit(2, epoch=1)) == Done()
    assert ticks(shared) == [1, 2]


def test_a_commit_happens_only_after_the_one_before_it(shared: Shared) -> None:
    assert ask(shared, commit(2)) == Passed()
    assert ask(shared, commit(1)) == Done()
    assert ask(shared, commit(1)) == Passed()
    assert ticks(shared) == [1]


def test_a_read_of_a_former_epoch_finds_nothing(shared: Shared) -> None:
    ask(shared, commit(1))
    read = ReadContent(HOME, 0, 1, lambda content: content.commits)
    assert ask(shared, read) == Found(1)
    assert ask(shared, replace(read, commits=2)) == Passed()
    ask(shared, raise_epoch(0))
    assert ask(shared, read) == Fenced()


def test_how_many_commits_there_were_is_told_only_with_what_the_standby_has(shared: Shared) -> None:
    ask(shared, commit(1))
    assert ask(shared, Settle(HOME, 0)) == Settled(1)
    assert ask(shared, Settle(HOME, 1)) == Fenced()
    shared.primary.is_replicating = False
    assert ask(shared, Settle(HOME, 0)) is None


def test_the_number_of_commits_is_told_after_one_that_is_still_under_way(shared: Shared) -> None:
    shared.primary.is_replicating = False
    assert ask(shared, commit(1)) is None
    said: list[Any] = []
    connection = shared.connected()
    assert connection is not None
    connection.ask(Settle(HOME, 0), answer_ms=ANSWER_MS).then(said.append)
    shared.primary.is_replicating = True
    shared.primary.ship()
    shared.run(20)
    assert said == [Settled(1)]


def test_taking_a_home_waits_for_a_commit_and_renewing_it_does_not(shared: Shared) -> None:
    shared.primary.is_replicating = False
    renewal = ChangeRow(HOME, lambda _: True, lambda row, _: replace(row, holder="b1"))
    for transaction, records in ((commit(1), 1), (renewal, 2), (raise_epoch(0), 2)):
        connection = shared.connected()
        assert connection is not None
        connection.ask(transaction, answer_ms=ANSWER_MS)
        shared.run(50)
        assert len(shared.primary.log) == records
    shared.primary.is_replicating = True
    shared.primary.ship()
    shared.run(50)
    assert (shared.database.content(HOME).row.epoch, len(shared.primary.log)) == (1, 3)


def test_a_row_changes_only_if_it_is_as_expected(shared: Shared) -> None:
    assert ask(shared, raise_epoch(5)) == Passed()
    assert ask(shared, raise_epoch(0)) == Row(epoch=1, version=1)
    shared.primary.clock_offset_ms = 5
    looked = ask(shared, Look(HOME))
    assert isinstance(looked, Looked)
    assert looked.row == Row(epoch=1, version=1)
    assert looked.now_ms > shared.clock.now_ms - 2 * ANSWER_MS


def test_an_answer_to_who_does_not_hold_the_home_breaks_the_law() -> None:
    read = ReadContent(HOME, 3, 0, lambda content: content.commits)
    assert breach_of(read, Found(1), 3) == ""
    assert breach_of(read, Fenced(), 4) == ""
    assert breach_of(Look(HOME), Looked(Row(), 0), 4) == ""
    for transaction, answer in ((read, Found(1)), (commit(1, epoch=3), Done())):
        said = breach_of(transaction, answer, 4)
        assert said == "the database answered what q.home asked in epoch 3, in epoch 4"
