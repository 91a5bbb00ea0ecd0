"""Nodes of the syntax tree are values."""

from __future__ import annotations

import pickle

import pytest

from penstock.selectors import ast
from penstock.selectors.ast import And, Attribute, Comparison, Constant, InList, Like, Literal, Not

TREE = And((Comparison("=", Attribute("a"), Literal(1)), Not(Like(Attribute("b"), "x%")), Constant(value=True)))


def test_equal_trees_are_equal_and_hash_alike() -> None:
    other = And((Comparison("=", Attribute("a"), Literal(1)), Not(Like(Attribute("b"), "x%")), Constant(value=True)))
    assert other == TREE
    assert hash(TREE) == hash(other)


def test_trees_that_differ_anywhere_are_not_equal() -> None:
    assert And(TREE.operands[:2]) != TREE
    assert Like(Attribute("a"), "x") != Like(Attribute("a"), "x", "!")
    assert InList(Attribute("a"), (1, 2)) != InList(Attribute("a"), (2, 1))


def test_a_node_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Attribute("a").name = "b"  # type: ignore[misc]


def test_a_tree_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(TREE)) == TREE  # noqa: S301 - our own bytes


def test_all_nodes_are_exported() -> None:
    nodes = {name for name, value in vars(ast).items() if isinstance(value, type) and value.__module__ == ast.__name__}
    assert nodes <= set(ast.__all__)
