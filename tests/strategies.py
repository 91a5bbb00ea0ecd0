"""What hypothesis draws for the tests of selectors and matching: values, messages and conditions that meet often."""

from __future__ import annotations

import os

from hypothesis import strategies as st

from penstock.model.values import AttributeValue, Scalar
from penstock.selectors import ast

_IS_EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "explore"


def tries(most: int) -> int:
    """How many examples a property is tried with: all when ``make soak`` explores, and a third otherwise.

    Otherwise they are the same in every run, so that more of them prove little more the second time.
    """
    return most if _IS_EXPLORING else max(most // 3, 100)


NAMES = ("a", "b", "c", "s")
TEXTS = ("", "a", "ab", "abc", "b", "ba", "é", "ab%", "a_b", "\U0010ffff", "a\U0010ffff", "AB", "'", "zzz")
NUMBERS: tuple[int | float, ...] = (
    0,
    1,
    2,
    3,
    5,
    -1,
    -7,
    0.5,
    1.0,
    1.5,
    2.5,
    -0.0,
    1e300,
    0.1,
    2**53,
    2**53 + 1,
    float(2**53),
    2**53 + 2,
    -(2**53) - 1,
    2**63 - 1,
    -(2**63),
    2**62 + 1,
)

literals: st.SearchStrategy[Scalar] = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(-10, 10, allow_nan=False),
)
values: st.SearchStrategy[AttributeValue] = st.one_of(
    literals,
    st.none(),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), 10**30, -(10**400), True, 1]),
    st.text(max_size=4),
)
messages: st.SearchStrategy[dict[str, AttributeValue]] = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)

attributes = st.sampled_from(NAMES).map(ast.Attribute)
operators: st.SearchStrategy[ast.ComparisonOperator] = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
_arithmetic: st.SearchStrategy[ast.ArithmeticOperator] = st.sampled_from(["+", "-", "*", "/"])

terms: st.SearchStrategy[ast.Term] = st.recursive(
    st.one_of(attributes, literals.map(ast.Literal)),
    lambda inner: st.one_of(inner.map(ast.Negative), st.builds(ast.Arithmetic, _arithmetic, inner, inner)),
    max_leaves=4,
)
patterns = st.lists(st.sampled_from(["a", "b", "%", "_", "é", "ab"]), max_size=4).map("".join)
simple_predicates: st.SearchStrategy[ast.Condition] = st.one_of(
    st.builds(ast.Comparison, operators, attributes, literals.map(ast.Literal)),
    st.builds(ast.InList, attributes, st.lists(literals, min_size=1, max_size=4).map(tuple)),
    st.builds(ast.Like, attributes, patterns),
    st.builds(ast.IsNull, attributes),
)
leaves: st.SearchStrategy[ast.Condition] = st.one_of(
    simple_predicates,
    simple_predicates.map(ast.Not),
    st.builds(ast.Comparison, operators, terms, terms),
    st.booleans().map(ast.Constant),
)
conditions: st.SearchStrategy[ast.Condition] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(ast.Not),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: ast.And(tuple(each))),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: ast.Or(tuple(each))),
    ),
    max_leaves=8,
)
conjunctions: st.SearchStrategy[ast.Condition] = st.lists(
    st.one_of(simple_predicates, simple_predicates.map(ast.Not)), min_size=2, max_size=4
).map(lambda each: ast.And(tuple(each)))
