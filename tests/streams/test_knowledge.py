from __future__ import annotations

import pytest

from penstock.streams import Knowledge


def test_a_part_of_knowledge_speaks_of_its_own_ticks_only() -> None:
    knowledge = Knowledge(10, 20, (11, 15, 18), (b"a", b"b", b"c"), version=3)
    assert knowledge.clipped(12, 30) == Knowledge(12, 20, (15, 18), (b"b", b"c"), version=3)
    assert knowledge.clipped(11, 15) == Knowledge(11, 15, (11, 15), (b"a", b"b"), version=3)
    assert knowledge.clipped(0, 14) == Knowledge(10, 14, (11,), (b"a",), version=3)
    assert knowledge.clipped(0, 99) is knowledge
    assert knowledge.clipped(21, 30) is None
    assert knowledge.clipped(0, 9) is None


@pytest.mark.parametrize("ticks", [(9,), (21,), (9, 15), (15, 21)])
def test_data_that_begins_or_ends_out_of_range_is_a_broken_invariant(ticks: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="out of order or range"):
        Knowledge(10, 20, ticks, [b""] * len(ticks))


@pytest.mark.parametrize("ticks", [(12, 11), (12, 12), (11, 21, 12)])
def test_data_out_of_order_is_noticed_by_who_checks(ticks: tuple[int, ...]) -> None:
    knowledge = Knowledge(10, 20, ticks, [b""] * len(ticks))
    with pytest.raises(AssertionError, match="out of order or range"):
        knowledge.check()
    Knowledge(10, 20, sorted({*ticks} - {21}), [b""] * len({*ticks} - {21})).check()


def test_a_range_that_ends_before_it_begins_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="are no range"):
        Knowledge(5, 4)


def test_a_tick_without_a_body_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="1 ticks have 0 bodies"):
        Knowledge(5, 9, (7,))
