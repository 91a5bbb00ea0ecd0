"""Commits and reads count within their epoch only, and a row changes only as expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.sim.database import Connection, Row, TimedOut, Transaction
from penstock.sim.transactions import (
    ChangeRow,
    CountCommits,
    Counted,
    Done,
    Fenced,
    Found,
    Look,
    Looked,
    Passed,
    ProveCommit,
    ReadContent,
    Tenure,
    breach_of,
)
from sim.shared import ANSWER_MS, HOME, NOBODYS, Shared, committing

TAKEN = Tenure(HOME, 1, "b1/1")


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


def raise_epoch(version: int) -> ChangeRow:
    return ChangeRow(
        HOME,
        lambda row: row.version == version,
        lambda row, _: replace(row, epoch=row.epoch + 1, life="b1/1", version=version + 1),
        raises_epoch=True,
    )


def ticks(shared: Shared) -> list[int]:
    return shared.database.content(HOME).disk.ticks("q")


def test_a_commit_of_a_former_epoch_does_nothing(shared: Shared) -> None:
    assert ask(shared, committing(1)) == Done()
    assert ask(shared, raise_epoch(0)) == Row(epoch=1, life="b1/1", version=1)
    assert ask(shared, committing(2)) == Fenced()
    assert ask(shared, committing(2, tenure=TAKEN)) == Done()
    assert ticks(shared) == [1, 2]


def test_the_same_epoch_of_another_life_is_somebody_elses(shared: Shared) -> None:
    ask(shared, raise_epoch(0))
    other = replace(TAKEN, life="b2/1")
    assert ask(shared, committing(1, tenure=other)) == Fenced()
    assert ask(shared, ReadContent(other, lambda content: content.commits)) == Fenced()
    assert ask(shared, ProveCommit(other, 0, 0)) == Fenced()


def test_a_commit_happens_only_after_the_one_before_it(shared: Shared) -> None:
    assert ask(shared, committing(2)) == Passed()
    assert ask(shared, committing(1)) == Done()
    assert ask(shared, committing(1)) == Passed()
    assert ticks(shared) == [1]


def test_a_read_of_a_former_epoch_finds_nothing(shared: Shared) -> None:
    ask(shared, committing(1))
    read = ReadContent(NOBODYS, lambda content: content.commits)
    assert ask(shared, read) == Found(1)
    ask(shared, raise_epoch(0))
    assert ask(shared, read) == Fenced()


def test_a_server_tells_how_many_commits_it_sees_and_which_was_the_latest(shared: Shared) -> None:
    assert ask(shared, CountCommits(HOME)) == Counted(0, 0)
    ask(shared, committing(1, mark=7))
    assert ask(shared, CountCommits(HOME)) == Counted(1, 7)


def test_a_commit_is_proved_only_with_what_the_standby_has(shared: Shared) -> None:
    ask(shared, committing(1, mark=7))
    assert ask(shared, ProveCommit(NOBODYS, 1, 7)) == Done()
    shared.primary.is_replicating = False
    assert ask(shared, ProveCommit(NOBODYS, 1, 7)) is None


def test_only_the_latest_commit_can_be_proved_and_only_by_whose_it_is(shared: Shared) -> None:
    ask(shared, committing(1, mark=7))
    assert ask(shared, ProveCommit(NOBODYS, 1, 8)) == Passed()
    assert ask(shared, ProveCommit(NOBODYS, 2, 7)) == Passed()
    ask(shared, committing(2, mark=9))
    assert ask(shared, ProveCommit(NOBODYS, 1, 7)) == Passed()


def test_who_gives_up_waiting_for_a_lock_does_not_get_it_later(shared: Shared) -> None:
    shared.primary.is_replicating = False
    assert ask(shared, committing(1)) is None
    assert ask(shared, raise_epoch(0)) == TimedOut()
    assert ask(shared, ProveCommit(NOBODYS, 0, 0)) == TimedOut()
    assert ask(shared, committing(1)) == TimedOut()
    shared.primary.is_replicating = True
    shared.primary.ship()
    shared.run(50)
    assert (shared.database.content(HOME).row.epoch, len(shared.primary.log)) == (0, 1)


def test_who_waits_for_a_lock_gets_it_in_time(shared: Shared) -> None:
    shared.primary.is_replicating = False
    connection = shared.connected()
    assert connection is not None
    connection.ask(committing(1), answer_ms=ANSWER_MS)
    said: list[Any] = []
    other = shared.connected()
    assert other is not None
    other.ask(committing(2), answer_ms=ANSWER_MS).then(said.append)
    shared.run(ANSWER_MS // 2)
    shared.primary.is_replicating = True
    shared.primary.ship()
    shared.run(20)
    assert (said, ticks(shared)) == ([Done()], [1, 2])


def test_taking_a_home_waits_for_a_commit_and_renewing_it_does_not(shared: Shared) -> None:
    shared.primary.is_replicating = False
    renewal = ChangeRow(HOME, lambda _: True, lambda row, _: replace(row, holder="b1"))
    for transaction, records in ((committing(1), 1), (renewal, 2), (raise_epoch(0), 2)):
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
    assert ask(shared, raise_epoch(0)) == Row(epoch=1, life="b1/1", version=1)
    shared.primary.clock_offset_ms = 5
    looked = ask(shared, Look(HOME))
    assert isinstance(looked, Looked)
    assert looked.row == Row(epoch=1, life="b1/1", version=1)
    assert looked.now_ms > shared.clock.now_ms - 2 * ANSWER_MS


def test_an_answer_to_who_does_not_hold_the_home_breaks_the_law() -> None:
    read = ReadContent(replace(TAKEN, epoch=3), lambda content: content.commits)
    assert breach_of(read, Found(1), Row(3, life="b1/1")) == ""
    assert breach_of(read, Fenced(), Row(4, life="b1/1")) == ""
    assert breach_of(Look(HOME), Looked(Row(), 0), Row(4)) == ""
    for transaction, answer in ((read, Found(1)), (committing(1, tenure=read.tenure), Done())):
        said = breach_of(transaction, answer, Row(4, life="b1/1"))
        assert said == "the database answered what q.home asked in epoch 3 of b1/1, in epoch 4 of b1/1"
        assert breach_of(transaction, answer, Row(3, life="b2/1"))
