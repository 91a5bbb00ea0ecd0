"""Selectors are evaluated in three-valued logic: tested against a slow reading of the rules."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.model.values import Attributes, AttributeValue, Scalar
from penstock.selectors.ast import (
    And,
    Arithmetic,
    ArithmeticOperator,
    Attribute,
    Comparison,
    ComparisonOperator,
    Condition,
    Constant,
    InList,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    Term,
)
from penstock.selectors.evaluate import compile_condition, compile_term
from penstock.selectors.parser import parse_sql

NAN, INF = math.nan, math.inf
A, B = Attribute("a"), Attribute("b")

KLEENE_AND: dict[tuple[bool | None, bool | None], bool | None] = {
    (True, True): True,
    (True, None): None,
    (True, False): False,
    (None, True): None,
    (None, None): None,
    (None, False): False,
    (False, True): False,
    (False, None): False,
    (False, False): False,
}
KLEENE_NOT: dict[bool | None, bool | None] = {True: False, None: None, False: True}
ORDERINGS: dict[ComparisonOperator, tuple[int, ...]] = {
    "=": (0,),
    "<>": (-1, 1),
    "<": (-1,),
    "<=": (-1, 0),
    ">": (1,),
    ">=": (0, 1),
}


def slow_condition(condition: Condition, attributes: Attributes) -> bool | None:
    """The rules, one by one, without any short cut."""
    match condition:
        case Constant(value):
            return value
        case Comparison(operator, left, right):
            return slow_comparison(operator, slow_term(left, attributes), slow_term(right, attributes))
        case InList(attribute, values):
            return slow_or([slow_comparison("=", attributes.get(attribute.name), value) for value in values])
        case Like(attribute, pattern, _):
            text = attributes.get(attribute.name)
            return slow_like(pattern, text) if isinstance(text, str) else None
        case IsNull(attribute):
            return attributes.get(attribute.name) is None
        case Not(operand):
            return KLEENE_NOT[slow_condition(operand, attributes)]
        case And(operands):
            return slow_and([slow_condition(operand, attributes) for operand in operands])
        case Or(operands):
            return slow_or([slow_condition(operand, attributes) for operand in operands])


def slow_and(values: list[bool | None]) -> bool | None:
    result: bool | None = True
    for value in values:
        result = KLEENE_AND[result, value]
    return result


def slow_or(values: list[bool | None]) -> bool | None:
    return KLEENE_NOT[slow_and([KLEENE_NOT[value] for value in values])]


def slow_like(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(slow_like(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and slow_like(pattern[1:], text[1:])


def kind(value: AttributeValue) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "unknown"
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def slow_comparison(operator: ComparisonOperator, left: AttributeValue, right: AttributeValue) -> bool | None:
    if kind(left) != kind(right) or kind(left) == "unknown":
        return None
    if kind(left) == "boolean" and operator not in ("=", "<>"):
        return None
    return slow_ordering(left, right) in ORDERINGS[operator]


def slow_ordering(left: AttributeValue, right: AttributeValue) -> int:
    first, second = order_key(left), order_key(right)
    return (first > second) - (first < second)


def order_key(value: AttributeValue) -> list[Fraction]:
    """A sequence that is ordered as the values of one kind are."""
    if isinstance(value, str):
        return [Fraction(ord(char)) for char in value]
    if isinstance(value, float) and math.isinf(value):
        return [Fraction(10) ** 400 * (1 if value > 0 else -1)]
    assert value is not None
    return [Fraction(value)]


def slow_term(term: Term, attributes: Attributes) -> AttributeValue:
    match term:
        case Literal(value):
            return value
        case Attribute(name):
            return attributes.get(name)
        case Negative(operand):
            return slow_arithmetic("-", 0, slow_term(operand, attributes))
        case Arithmetic(operator, left, right):
            return slow_arithmetic(operator, slow_term(left, attributes), slow_term(right, attributes))


def slow_arithmetic(operator: ArithmeticOperator, left: AttributeValue, right: AttributeValue) -> AttributeValue:
    if kind(left) != "number" or kind(right) != "number":
        return None
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    result: AttributeValue = None
    try:
        if operator == "+":
            result = left + right
        elif operator == "-":
            result = left - right
        elif operator == "*":
            result = left * right
        elif right != 0:
            exact = isinstance(left, int) and isinstance(right, int)
            result = math.trunc(Fraction(left) / Fraction(right)) if exact else left / right
    except OverflowError:
        return None
    return None if kind(result) == "unknown" else result


VALUES: list[AttributeValue] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    -7,
    2,
    0.0,
    -0.0,
    1.0,
    0.5,
    -2.5,
    NAN,
    INF,
    -INF,
    1e308,
    2**53,
    2**53 + 1,
    float(2**53),
    INTEGER_MAX,
    INTEGER_MIN,
    float(2**63),
    "",
    "a",
    "b",
    "ab",
    "B",
    "1",
    "é",
    "😀",
    "\uffff",
    "a\nb",
    "TRUE",
]
values = st.sampled_from(VALUES)
scalars: st.SearchStrategy[Scalar] = st.sampled_from([value for value in VALUES if value is not None])
names = st.sampled_from([A, B, Attribute("absent")])
terms: st.SearchStrategy[Term] = st.recursive(
    names | scalars.map(Literal),
    lambda inner: st.builds(Negative, inner) | st.builds(Arithmetic, st.sampled_from("+-*/"), inner, inner),
    max_leaves=4,
)
simple: st.SearchStrategy[Condition] = st.one_of(
    st.booleans().map(Constant),
    st.builds(Comparison, st.sampled_from(list(ORDERINGS)), terms, terms),
    st.builds(Comparison, st.sampled_from(list(ORDERINGS)), names, scalars.map(Literal)),
    st.builds(Comparison, st.sampled_from(list(ORDERINGS)), scalars.map(Literal), names),
    st.builds(InList, names, st.lists(scalars, max_size=4).map(tuple)),
    st.builds(Like, names, st.text("ab%_", max_size=4)),
    st.builds(IsNull, names),
)
conditions: st.SearchStrategy[Condition] = st.recursive(
    simple,
    lambda inner: (
        st.builds(Not, inner)
        | st.lists(inner, min_size=2, max_size=3).map(lambda operands: And(tuple(operands)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda operands: Or(tuple(operands)))
    ),
    max_leaves=6,
)


@given(conditions, values, values)
def test_conditions_agree_with_a_slow_reading_of_the_rules(
    condition: Condition, a: AttributeValue, b: AttributeValue
) -> None:
    attributes = {"a": a, "b": b}
    assert compile_condition(condition)(attributes) is slow_condition(condition, attributes)


@given(terms, values, values)
def test_terms_agree_with_a_slow_reading_of_the_rules(term: Term, a: AttributeValue, b: AttributeValue) -> None:
    attributes = {"a": a, "b": b}
    actual, expected = compile_term(term)(attributes), slow_term(term, attributes)
    # NaN is left only where it stands alone: as an attribute or a literal.
    assert repr(actual).replace("-0.0", "0.0") == repr(expected).replace("-0.0", "0.0")


@pytest.mark.parametrize("operator", list(ORDERINGS))
def test_all_pairs_of_values_compare_alike_by_all_ways(operator: ComparisonOperator) -> None:
    general = compile_condition(Comparison(operator, A, B))
    for left in VALUES:
        for right in VALUES:
            expected = slow_comparison(operator, left, right)
            assert general({"a": left, "b": right}) is expected
            if right is not None:
                assert compile_condition(Comparison(operator, A, Literal(right)))({"a": left}) is expected
            if left is not None:
                assert compile_condition(Comparison(operator, Literal(left), B))({"b": right}) is expected


@pytest.mark.parametrize("left", [True, False, None])
@pytest.mark.parametrize("right", [True, False, None])
def test_connectives_follow_the_tables_of_kleene(*, left: bool | None, right: bool | None) -> None:
    attributes = {"a": left, "b": right}
    assert compile_condition(parse_sql("a AND b"))(attributes) is KLEENE_AND[left, right]
    assert compile_condition(parse_sql("a OR b"))(attributes) is slow_or([left, right])
    assert compile_condition(parse_sql("NOT a"))(attributes) is KLEENE_NOT[left]


@pytest.mark.parametrize(
    ("text", "attributes", "expected"),
    [
        ("a = 1", {"a": True}, None),
        ("a = TRUE", {"a": 1}, None),
        ("a", {"a": True}, True),
        ("a", {"a": "TRUE"}, None),
        ("a < TRUE", {"a": False}, None),
        ("a <> TRUE", {"a": False}, True),
        ("a = 9007199254740993", {"a": float(2**53)}, False),
        ("a > 9007199254740992.0", {"a": 2**53 + 1}, True),
        ("a = 1", {"a": 1.0}, True),
        ("a <> 1", {}, None),
        ("a <> 1", {"a": "1"}, None),
        ("a <> 1", {"a": NAN}, None),
        ("a < 'b'", {"a": "a"}, True),
        ("a < '😀'", {"a": "\uffff"}, True),
        ("a IS NULL", {}, True),
        ("a IS NULL", {"a": None}, True),
        ("a IS NULL", {"a": NAN}, False),
        ("a IS NOT NULL", {"a": ""}, True),
        ("a IN (1, 2)", {"a": 2.0}, True),
        ("a IN (1, 'x')", {"a": 3}, None),
        ("a IN (1, 'x')", {"a": "x"}, True),
        ("a IN (1, 2)", {"a": True}, None),
        ("a NOT IN ('x')", {}, None),
        ("a NOT IN ('x')", {"a": "y"}, True),
        ("a LIKE 'x'", {"a": "x"}, True),
        ("a LIKE 'x%'", {"a": "xyz"}, True),
        ("a LIKE '%y%'", {"a": "xyz"}, True),
        ("a LIKE '!%%' ESCAPE '!'", {"a": "%a"}, True),
        ("a NOT LIKE '%'", {"a": 5}, None),
        ("a BETWEEN 1 AND 3", {"a": 3}, True),
        ("a BETWEEN 5 AND b", {"a": 1}, False),
        ("-7 / 2 = -3", {}, True),
        ("7 / -2 = -3", {}, True),
        ("a / 3 = 3074457345618258602", {"a": INTEGER_MAX}, True),
        ("a / 0 = a / 0", {"a": 1}, None),
        ("a / 0.0 > 1", {"a": 1}, None),
        ("a * 10 = -9223372036854775808 * 10", {"a": INTEGER_MIN}, True),
        ("-a > 9223372036854775807", {"a": INTEGER_MIN}, True),
        ("a * 2 > 1", {"a": 1e308}, True),
        ("a - a = 0", {"a": INF}, None),
        ("a + 1 = 2", {"a": True}, None),
        ("a + 'x' = 'ax'", {"a": "a"}, None),
        ("+a = 'x'", {"a": "x"}, None),
        ("+a = 5", {"a": 5}, True),
        ("1 = 2 AND a", {}, False),
        ("", {}, True),
    ],
)
def test_examples_that_are_easily_got_wrong(text: str, attributes: Attributes, *, expected: bool | None) -> None:
    assert compile_condition(parse_sql(text))(attributes) is expected


def test_an_integer_that_no_float_can_hold_makes_a_sum_unknown() -> None:
    huge = parse_sql("a" + "*a" * 20 + " + 0.5 > 1")
    assert compile_condition(huge)({"a": INTEGER_MAX}) is None
    assert compile_condition(parse_sql("a" + "*a" * 20 + " > 0.5"))({"a": INTEGER_MAX}) is True


def test_a_comparison_with_a_literal_that_is_no_number_is_unknown() -> None:
    assert compile_condition(Comparison("<>", A, Literal(NAN)))({"a": 1}) is None
    assert compile_condition(InList(A, (NAN, 1)))({"a": 2}) is None


def test_what_is_decided_is_not_evaluated_further() -> None:
    class Watched(dict[str, AttributeValue]):
        """Attributes that remember who was asked for."""

        asked: list[str]

        def get(self, name: str, default: AttributeValue = None) -> AttributeValue:  # type: ignore[override]
            self.asked.append(name)
            return super().get(name, default)

    for text, expected in [("a = 2 AND b = 1", ["a"]), ("a = 1 OR b = 1", ["a"]), ("a = 1 AND b = 1", ["a", "b"])]:
        attributes = Watched(a=1, b=1)
        attributes.asked = []
        compile_condition(parse_sql(text))(attributes)
        assert attributes.asked == expected


def test_the_deepest_selector_can_be_evaluated() -> None:
    assert compile_condition(parse_sql("NOT " * 99 + "a"))({"a": True}) is False
    assert compile_condition(parse_sql("a" + "+a" * 99 + " = 100"))({"a": 1}) is True
