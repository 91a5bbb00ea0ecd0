"""What goes ahead of messages that wait for space, and what is left of its commits."""

from __future__ import annotations

from penstock.broker.ahead import changes_ahead, without_values
from penstock.broker.durable import Append, KeepRecord, SetValue, Trim
from penstock.broker.effects import Commit
from penstock.model.tick import Tick

MESSAGES = ((Tick(20), b"x"), (Tick(21), b"y"))


def test_trims_and_values_go_ahead_and_messages_and_records_do_not() -> None:
    value, other = SetValue("a", b"1"), SetValue("a", None)
    commits = [
        Commit(1, (Append("p", MESSAGES), value, Trim("q", Tick(5)))),
        Commit(2, (KeepRecord("r", b""), Trim("q", Tick(9)), other)),
    ]
    assert changes_ahead(commits) == [Trim("q", Tick(9)), value, other]


def test_no_trim_goes_beyond_messages_that_wait_too() -> None:
    commits = [Commit(1, (Append("p", MESSAGES),)), Commit(2, (Trim("p", Tick(30)),))]
    assert changes_ahead(commits) == [Trim("p", Tick(20))]
    assert changes_ahead(commits[1:]) == [Trim("p", Tick(30))]


def test_a_commit_keeps_its_number_and_all_but_the_values() -> None:
    append, trim = Append("p", MESSAGES), Trim("p", Tick(9))
    assert without_values(Commit(7, (append, SetValue("a", b"1"), trim))) == Commit(7, (append, trim))
