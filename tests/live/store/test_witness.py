"""The witness of a store: two slots, and the lock of the folder."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from penstock.live.store.errors import StoreLockedError
from penstock.live.store.totals import Totals
from penstock.live.store.witness import WITNESS_NAME, Statement, Witness


def totals(commits: int) -> Totals:
    return Totals(b"i" * 16, commits, highest_tick=10 * commits)


def written(folder: Path, last: int) -> None:
    with closing(Witness(folder)) as witness:
        witness.begin(totals(1))
        for commits in range(2, last + 1):
            witness.note(totals(commits))


def found(folder: Path) -> Statement | None:
    with closing(Witness(folder)) as witness:
        return witness.statement


def test_it_says_what_it_saw_last(tmp_path: Path) -> None:
    assert found(tmp_path) is None
    for last in (1, 2, 3, 8):
        written(tmp_path, last)
        assert found(tmp_path) == Statement(b"i" * 16, last, 10 * last)


@pytest.mark.parametrize(("damaged", "left"), [((0,), 7), ((4_096,), 6), ((0, 4_096), None)])
def test_a_damaged_slot_leaves_the_other(tmp_path: Path, damaged: tuple[int, ...], left: int | None) -> None:
    written(tmp_path, 7)
    content = bytearray((tmp_path / WITNESS_NAME).read_bytes())
    for at in damaged:
        content[at + 20] ^= 4
    (tmp_path / WITNESS_NAME).write_bytes(content)
    said = found(tmp_path)
    # The last commit is noted in the second slot.
    assert (None if said is None else said.commits) == (6 if damaged == (4_096,) else left)


def test_a_file_that_ends_too_early_says_what_is_left(tmp_path: Path) -> None:
    written(tmp_path, 7)
    os.truncate(tmp_path / WITNESS_NAME, 4_100)
    said = found(tmp_path)
    assert said is not None
    assert said.commits == 6
    os.truncate(tmp_path / WITNESS_NAME, 10)
    assert found(tmp_path) is None


def test_a_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with closing(Witness(tmp_path)), pytest.raises(StoreLockedError, match="only one broker may open it"):
        Witness(tmp_path)
    Witness(tmp_path).close()


def test_it_can_be_closed_twice(tmp_path: Path) -> None:
    witness = Witness(tmp_path)
    witness.close()
    witness.close()


def test_it_leaves_a_foreign_folder_as_it_was(tmp_path: Path) -> None:
    Witness(tmp_path).withdraw()
    assert list(tmp_path.iterdir()) == []
    written(tmp_path, 1)
    Witness(tmp_path).withdraw()
    assert found(tmp_path) is not None
