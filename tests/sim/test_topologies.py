"""Shapes of overlays have the links their names promise."""

from __future__ import annotations

import pytest

from penstock.model import MisuseError
from penstock.sim.topologies import broker_names, chain, ring, tree

ABCD = list("abcd")


def test_shapes_have_their_links() -> None:
    assert broker_names(3) == ["b1", "b2", "b3"]
    assert chain(ABCD) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert ring(ABCD) == [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    assert tree(list("abcdef")) == [("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f")]
    assert tree(ABCD, children=1) == chain(ABCD)


def test_shapes_without_enough_different_brokers_are_refused() -> None:
    with pytest.raises(MisuseError):
        chain(["a"])
    with pytest.raises(MisuseError):
        ring(["a", "b"])
    with pytest.raises(MisuseError):
        chain(["a", "a"])
    with pytest.raises(MisuseError, match="0 children"):
        tree(ABCD, children=0)
