from __future__ import annotations

import pytest

from penstock.streams import Knowledge


def test_a_part_of_knowledge_speaks_of_its_own_ticks_only() -> None:
    knowledge = Knowledge(10, 20, ((11, b"a"), (15, b"b")), version=3)
    assert knowledge.clipped(12, 30) == Knowledge(12, 20, ((15, b"b"),), version=3)
    assert knowledge.clipped(0, 99) is knowledge
    assert knowledge.clipped(21, 30) is None


@pytest.mark.parametrize("data", [((9, b""),), ((21, b""),), ((12, b""), (11, b"")), ((12, b""), (12, b""))])
def test_data_out_of_order_or_range_is_a_broken_invariant(data: tuple[tuple[int, bytes], ...]) -> None:
    with pytest.raises(AssertionError, match="out of order or range"):
        Knowledge(10, 20, data)


def test_a_range_that_ends_before_it_begins_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="are no range"):
        Knowledge(5, 4)
