"""One predicate at a time: its opposite, its folded form and its constraint all mean what it means."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.model.values import AttributeValue, Scalar
from penstock.selectors import ast
from penstock.selectors.constraint import Exists, Null, Range, Values
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.leaves import FALSE, TRUE, fold, leaf_of, opposite
from penstock.selectors.parser import parse_sql
from strategies import literals, messages, operators, simple_predicates, terms, tries

Message = dict[str, AttributeValue]
A = ast.Attribute("a")
OF_EVERY_KIND: tuple[Message, ...] = ({"a": 1}, {"a": "x"}, {"a": True}, {"a": math.nan}, {"a": None}, {})

comparisons = st.builds(ast.Comparison, operators, terms, terms)
predicates: st.SearchStrategy[ast.Condition] = st.one_of(
    simple_predicates, comparisons, st.booleans().map(ast.Constant)
)


def evaluated(condition: ast.Condition, message: Message) -> bool | None:
    return compile_condition(condition)(message)


def is_true_of(leaf: tuple[str, Values | Range | Exists | Null] | ast.Condition, message: Message) -> bool:
    if isinstance(leaf, tuple):
        return leaf[1].contains(message.get(leaf[0]))
    return evaluated(leaf, message) is True


@settings(max_examples=tries(1000))
@given(predicates, messages)
@example(parse_sql("a < TRUE"), {"a": False})
@example(parse_sql("a = TRUE"), {"a": 1})
@example(parse_sql("a > 5"), {"a": math.nan})
@example(parse_sql("a IN (1, 'x')"), {"a": 2})
def test_an_opposite_is_true_where_the_predicate_is_false_and_unknown_where_it_is_unknown(
    leaf: ast.Condition, message: Message
) -> None:
    value = evaluated(leaf, message)
    assert evaluated(opposite(leaf), message) is (None if value is None else not value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", "a <> 1"),
        ("a <> 1", "a = 1"),
        ("a < 1", "a >= 1"),
        ("a <= 1", "a > 1"),
        ("a > 1", "a <= 1"),
        ("a >= 1", "a < 1"),
        ("a IN (1)", "NOT a IN (1)"),
        ("a LIKE 'x'", "NOT a LIKE 'x'"),
        ("a IS NULL", "NOT a IS NULL"),
        ("TRUE", "FALSE"),
        ("FALSE", "TRUE"),
    ],
)
def test_comparisons_and_constants_have_opposites_of_their_own(text: str, expected: str) -> None:
    assert opposite(parse_sql(text)) == parse_sql(expected)


@settings(max_examples=tries(1000))
@given(predicates, messages)
@example(parse_sql("5 > a"), {"a": 4})
@example(parse_sql("7 / 2 = a"), {"a": 3})
@example(parse_sql("-a < -(5)"), {"a": 6})
@example(parse_sql("a = 1 / 0"), {"a": 1})
def test_folding_keeps_the_meaning_also_where_it_is_unknown(leaf: ast.Condition, message: Message) -> None:
    assert evaluated(fold(leaf), message) is evaluated(leaf, message)


@given(predicates)
def test_folding_twice_changes_nothing_more(leaf: ast.Condition) -> None:
    once = fold(leaf)
    assert repr(fold(once)) == repr(once)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 2 + 3 * 4", "a > 14"),
        ("2 + 3 < a", "a > 5"),
        ("5 <= a", "a >= 5"),
        ("5 >= a", "a <= 5"),
        ("5 > a", "a < 5"),
        ("5 = a", "a = 5"),
        ("5 <> a", "a <> 5"),
        ("a > 7 / -2", "a > -3"),
        ("a > 7 / 2.0", "a > 3.5"),
        ("-(-(5)) < a", "a > 5"),
        ("2 * 3 + b > a", "6 + b > a"),
        ("5 > a + b", "a + b < 5"),
        ("9223372036854775806 + 1 = a", "a = 9223372036854775807"),
    ],
)
def test_constant_terms_are_computed_and_a_lone_constant_stands_right(text: str, expected: str) -> None:
    assert repr(fold(parse_sql(text))) == repr(parse_sql(expected))


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 / 0",
        "a = 1.5 / 0",
        "a = 1e308 * 10",
        "a = 9223372036854775807 + 1",
        "a = -(-9223372036854775808)",
        "a = 'x' + 1",
        "a = -('x')",
        "a = TRUE + 1",
        "a + b > 5",
        "a > b",
        "a IN (1, 2)",
        "a IS NULL",
        "TRUE",
    ],
)
def test_what_cannot_be_written_as_a_literal_stays_as_it_was(text: str) -> None:
    condition = parse_sql(text)
    assert fold(condition) == condition


@settings(max_examples=tries(1500))
@given(st.one_of(predicates, simple_predicates.map(ast.Not)), messages)
@example(parse_sql("a NOT LIKE 'a%'"), {"a": "ab"})
@example(parse_sql("a NOT IN (1, 'x')"), {"a": 2})
@example(parse_sql("a < TRUE"), {"a": False})
@example(parse_sql("a <> 'x'"), {"a": 1})
def test_a_leaf_is_true_exactly_where_the_predicate_is(condition: ast.Condition, message: Message) -> None:
    leaf = leaf_of(fold(condition))
    assert is_true_of(leaf, message) == (evaluated(condition, message) is True)


@given(operators, literals)
@example("<>", 5)
def test_a_leaf_is_not_true_of_nan(operator: ast.ComparisonOperator, value: Scalar) -> None:
    assert not is_true_of(leaf_of(ast.Comparison(operator, A, ast.Literal(value))), {"a": math.nan})


def test_an_empty_list_is_left_by_leaves_as_it_is_evaluated() -> None:
    nothing = ast.InList(A, ())
    for message in OF_EVERY_KIND:
        assert is_true_of(leaf_of(nothing), message) == (evaluated(nothing, message) is True)


def test_the_negation_of_an_empty_list_is_left_by_leaves_as_it_is_evaluated() -> None:
    anything = ast.Not(ast.InList(A, ()))
    for message in OF_EVERY_KIND:
        assert is_true_of(leaf_of(anything), message) == (evaluated(anything, message) is True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", ("a", Values((1,)))),
        ("a = TRUE", ("a", Values(((True,),)))),
        ("a <> TRUE", ("a", Values(((False,),)))),
        ("a > 1", ("a", Range(text=False, low=1, low_open=True))),
        ("a >= 1", ("a", Range(text=False, low=1))),
        ("a < 1.5", ("a", Range(text=False, high=1.5, high_open=True))),
        ("a <= 'x'", ("a", Range(text=True, low="", high="x"))),
        ("a <> 1", ("a", Range(text=False, excluded=(1,)))),
        ("a IN ('x', 2)", ("a", Values((2, "x")))),
        ("a NOT IN (2, 1)", ("a", Range(text=False, excluded=(1, 2)))),
        ("a LIKE 'ab%'", ("a", Range(text=True, low="ab", high="ac", high_open=True))),
        ("a IS NULL", ("a", Null())),
        ("a IS NOT NULL", ("a", Exists())),
        ("1 < 2", TRUE),
        ("1 > 2", FALSE),
        ("1 = 'x'", FALSE),
        ("1 <> 'x'", FALSE),
        ("TRUE = TRUE", TRUE),
        ("a > TRUE", FALSE),
        ("a NOT IN (1, 'x')", FALSE),
        ("a NOT LIKE '%'", FALSE),
        ("TRUE", TRUE),
        ("FALSE", FALSE),
        ("a + b > 1", parse_sql("a + b > 1")),
        ("a > b", parse_sql("a > b")),
    ],
)
def test_a_predicate_is_a_constraint_or_a_constant_or_itself(text: str, expected: object) -> None:
    assert leaf_of(parse_sql(text)) == expected
