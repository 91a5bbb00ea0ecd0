"""Checksums of rows, and the totals of a store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import combinations

import pytest

from penstock.live.store.totals import (
    TOTALS_SCHEMA,
    Tally,
    Totals,
    batch_checksum,
    checksum_of,
    find_totals,
    kept_checksum,
    load_totals,
    named_checksum,
    pubend_checksum,
    publisher_checksum,
)

SAMPLE = Totals(b"i" * 16, 7, 2**64 - 1, 5, -3, Tally(1, -1), Tally(2, 5), Tally(3), Tally(4, 2**63 - 1), Tally(5))


def test_totals_are_what_was_stored() -> None:
    assert Totals.decode(SAMPLE.encode()) == SAMPLE


def test_no_byte_of_stored_totals_can_change_unnoticed() -> None:
    stored = SAMPLE.encode()
    for at in range(len(stored)):
        changed = bytearray(stored)
        changed[at] ^= 1
        assert Totals.decode(bytes(changed)) is None
    assert Totals.decode(stored[:-1]) is None
    assert Totals.decode(stored.decode("latin-1")) is None


def test_the_next_totals_leave_the_old_ones_as_they_are() -> None:
    following = SAMPLE.next()
    following.batches.add(9)
    assert (following.commits, following.batches) == (8, Tally(3, 12))
    assert SAMPLE.batches == Tally(2, 5)


def test_adding_and_removing_gives_the_same_tally() -> None:
    tally = Tally(3, 5)
    for checksum in (9, -7):
        tally.add(checksum)
    tally.remove(9)
    assert tally == Tally(4, 5 ^ -7)


def test_totals_are_found_in_a_page_among_older_ones() -> None:
    older, newer = SAMPLE.encode(), SAMPLE.next().encode()
    assert find_totals(b"x" * 9 + newer + b"y" + older) == SAMPLE.next()
    assert find_totals(b"x" * 9 + older[:-1] + b"y" + older) == SAMPLE
    assert find_totals(older[:-1]) is None


@pytest.mark.parametrize("rows", [0, 2])
def test_a_store_has_its_totals_once(rows: int) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(TOTALS_SCHEMA)
        database.executemany("INSERT INTO totals VALUES (?)", [(SAMPLE.encode(),)] * rows)
        assert load_totals(database) is None


def test_a_checksum_fits_what_sqlite_can_store() -> None:
    checksums = [checksum_of(bytes([number])) for number in range(256)]
    assert len(set(checksums)) == 256
    assert all(-(2**63) <= checksum < 2**63 for checksum in checksums)
    assert min(checksums) < 0 < max(checksums)


def test_changes_in_two_rows_do_not_cancel() -> None:
    """With a linear checksum, places 4 and 7 would have the same digest as 5 and 6."""
    digests = [kept_checksum("x", one) ^ kept_checksum("y", two) for one, two in combinations(range(40), 2)]
    assert len(set(digests)) == len(digests)


def test_every_column_counts() -> None:
    pubends: list[tuple[int, str, int | None, int | None, int]]
    pubends = [(1, "p", 2, 3, 4), (2, "p", 2, 3, 4), (1, "q", 2, 3, 4), (1, "p", None, 3, 4), (1, "p", 0, 3, 4)]
    pubends += [(1, "p", 2, None, 4), (1, "p", 2, 0, 4), (1, "p", 2, 3, 5)]
    assert len({pubend_checksum(*row) for row in pubends}) == len(pubends)
    batches = {batch_checksum((1, 2, 3, 4, 5, 6, 7))}
    for at in range(7):
        first, last, messages, size_bytes, place, body, pubend = (9 if each == at else each + 1 for each in range(7))
        batches.add(batch_checksum((first, last, messages, size_bytes, place, body, pubend)))
    assert len(batches) == 8
    publishers = [(1, b"a", 2, 3), (2, b"a", 2, 3), (1, b"b", 2, 3), (1, b"a", 1, 3), (1, b"a", 2, 4), (1, b"a", 3, 2)]
    assert len({publisher_checksum(*row) for row in publishers}) == len(publishers)
    named = [("a", b"seal value"), ("b", b"seal value"), ("a", b"sale value")]
    assert len({named_checksum(*row) for row in named}) == 3
    assert named_checksum("a", b"seal value") == named_checksum("a", b"seal other")
