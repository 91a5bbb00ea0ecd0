from __future__ import annotations

import pytest

from penstock.ajil.groups import GroupIndex
from penstock.model.errors import LimitError


def test_names_are_numbered_in_the_order_in_which_they_come() -> None:
    index = GroupIndex()
    assert [index.number(each) for each in ("b", "a", "b")] == [0, 1, 0]
    assert index.names == ["b", "a"]
    assert (index.get("a"), index.get("c"), len(index)) == (1, None, 2)


def test_names_beyond_the_bound_are_refused_and_known_ones_are_not() -> None:
    index = GroupIndex(1)
    index.number("a")
    with pytest.raises(LimitError, match="the number of groups is 2, over the limit of 1"):
        index.number("b")
    assert index.number("a") == 0
