from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.profile.bits import added, bits_of, overlaps, popcounts, union

WANTED = st.lists(st.sets(st.integers(0, 9)), max_size=200)


def packed(wanted: list[set[int]]) -> list[bytes]:
    return [np.array(sorted(each), np.uint32).tobytes() for each in wanted]


def rows(wanted: list[set[int]]) -> list[set[int]]:
    return [{place for place, each in enumerate(wanted) if row in each} for row in range(10)]


def test_the_worked_example_of_the_paper() -> None:
    sub, css = np.array([[0b110111]], np.uint64), np.array([0b110001], np.uint64)
    assert int(added(sub, css)[0]) == 2
    assert 3.0 * int(popcounts(sub)[0]) / 6 == 2.5
    assert 3.0 * int(added(sub, css)[0]) / 6 == 1.0


@given(WANTED)
def test_bits_count_as_sets_do(wanted: list[set[int]]) -> None:
    bits, sets = bits_of(10, packed(wanted)), rows(wanted)
    assert popcounts(bits).tolist() == [len(each) for each in sets]
    together = union(bits, [1, 4, 7])
    assert int(popcounts(together)) == len(sets[1] | sets[4] | sets[7])
    assert added(bits, together).tolist() == [len(each - (sets[1] | sets[4] | sets[7])) for each in sets]


@given(WANTED, st.permutations(range(10)))
def test_overlaps_are_the_largest_there_are(wanted: list[set[int]], order: list[int]) -> None:
    bits, sets = bits_of(10, packed(wanted)), rows(wanted)
    chosen = order[:6]
    found = overlaps(bits, chosen, most=2)
    for row in chosen:
        common = sorted((len(sets[row] & sets[other]) for other in chosen if other != row), reverse=True)
        assert [count for _, count in found[row]] == [count for count in common[:2] if count]
        assert all(len(sets[row] & sets[other]) == count and other != row for other, count in found[row])


def test_nothing_is_wanted_by_nobody() -> None:
    assert int(popcounts(union(bits_of(2, packed([{0}, {1}])), []))) == 0
    assert bits_of(0, []).shape == (0, 0)
