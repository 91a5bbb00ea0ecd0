"""Changes of a turn are one commit, numbered in order; what is durable is what the shell said."""

from __future__ import annotations

import pytest

from penstock.broker.commits import Commits
from penstock.broker.durable import SetValue, Trim
from penstock.broker.effects import Commit
from penstock.model.tick import Tick

VALUE = SetValue("name", b"value")
TRIM = Trim("p", Tick(5))


def test_what_changes_in_one_turn_is_one_commit() -> None:
    commits = Commits()
    assert [commits.add(VALUE), commits.add(TRIM)] == [1, 1]
    assert commits.take() == Commit(1, (VALUE, TRIM))


def test_a_turn_without_a_change_has_no_commit_and_uses_no_number() -> None:
    commits = Commits()
    assert commits.take() is None
    assert commits.add(VALUE) == 1
    assert commits.take() == Commit(1, (VALUE,))
    assert commits.take() is None
    assert commits.add(TRIM) == 2


def test_commits_wait_until_the_shell_says_that_they_are_durable() -> None:
    commits = Commits()
    for _ in range(3):
        commits.add(VALUE)
        commits.take()
    assert (commits.waiting, commits.durable) == (3, 0)
    commits.on_committed(2)
    assert (commits.waiting, commits.durable) == (1, 2)
    commits.on_committed(3)
    assert (commits.waiting, commits.durable) == (0, 3)


@pytest.mark.parametrize("number", [1, 4])
def test_a_shell_that_takes_words_back_or_says_too_much_is_broken(number: int) -> None:
    commits = Commits()
    for _ in range(3):
        commits.add(VALUE)
        commits.take()
    commits.on_committed(2)
    with pytest.raises(AssertionError, match=rf"^commit {number} is not in 2 .. 3"):
        commits.on_committed(number)
