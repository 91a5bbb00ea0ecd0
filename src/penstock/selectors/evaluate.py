"""Turns selectors into functions that say whether a message matches (SQL-92 section 8.12, JMS 2.0 section 3.8.1.2).

The result is three-valued: True, False, or None for *unknown*. A tree becomes nested closures, so that everything
that does not depend on the message (which operator, which type of literal) is decided only once.

Deviations from JMS: text can be ordered, by code point; integers and floats compare exactly and integers do not
overflow, since rounding would let two brokers disagree; a division by zero is unknown instead of an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeGuard, assert_never

from penstock.model.values import Attributes, AttributeValue, Scalar
from penstock.selectors.ast import (
    And,
    Arithmetic,
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
from penstock.selectors.like import LikePattern

__all__ = ["Evaluation", "TermEvaluation", "compile_condition", "compile_term"]

Evaluation: TypeAlias = Callable[[Attributes], bool | None]
TermEvaluation: TypeAlias = Callable[[Attributes], AttributeValue]

_Number: TypeAlias = int | float
_NUMERIC: Final = (int, float)
_Compare: TypeAlias = Callable[[Any, Any], bool]

_COMPARE: Final[dict[ComparisonOperator, _Compare]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED: Final[dict[ComparisonOperator, ComparisonOperator]] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def compile_condition(condition: Condition) -> Evaluation:
    """A function from a message's attributes to True, False or None (unknown).

    >>> compile_condition(Comparison(">", Attribute("volume"), Literal(15)))({"volume": 16})
    True
    """
    match condition:
        case Comparison():
            return _comparison(condition)
        case And():
            return _and(tuple(map(compile_condition, condition.operands)))
        case Or():
            return _or(tuple(map(compile_condition, condition.operands)))
        case Not():
            return _not(compile_condition(condition.operand))
        case InList():
            return _in_list(condition)
        case Like():
            return _like(condition)
        case IsNull():
            name = condition.attribute.name
            return lambda attributes: attributes.get(name) is None
        case Constant():
            value = condition.value
            return lambda _: value
        case _:
            assert_never(condition)


def compile_term(term: Term) -> TermEvaluation:
    """A function from a message's attributes to the value of the term, or None (unknown)."""
    match term:
        case Attribute():
            name = term.name
            return lambda attributes: attributes.get(name)
        case Literal():
            value = term.value
            return lambda _: value
        case Negative():
            return _negative(compile_term(term.operand))
        case Arithmetic():
            return _arithmetic(_ARITHMETIC[term.operator], compile_term(term.left), compile_term(term.right))
        case _:
            assert_never(term)


def _and(operands: tuple[Evaluation, ...]) -> Evaluation:
    def conjunction(attributes: Attributes) -> bool | None:
        result: bool | None = True
        for operand in operands:
            value = operand(attributes)
            if not value:
                if value is not None:
                    return False
                result = None
        return result

    return conjunction


def _or(operands: tuple[Evaluation, ...]) -> Evaluation:
    def disjunction(attributes: Attributes) -> bool | None:
        result: bool | None = False
        for operand in operands:
            value = operand(attributes)
            if value:
                return True
            if value is None:
                result = None
        return result

    return disjunction


def _not(operand: Evaluation) -> Evaluation:
    def negation(attributes: Attributes) -> bool | None:
        value = operand(attributes)
        return None if value is None else not value

    return negation


def _comparison(condition: Comparison) -> Evaluation:
    left, right = condition.left, condition.right
    if isinstance(left, Attribute) and isinstance(right, Literal):
        return _attribute_comparison(left.name, condition.operator, right.value)
    if isinstance(left, Literal) and isinstance(right, Attribute):
        return _attribute_comparison(right.name, _MIRRORED[condition.operator], left.value)
    return _general_comparison(condition.operator, compile_term(left), compile_term(right))


def _attribute_comparison(name: str, sign: ComparisonOperator, value: Scalar) -> Evaluation:
    """The comparison that nearly all selectors are made of: the type of the literal is known beforehand."""
    if isinstance(value, bool):
        return _boolean_comparison(name, sign, value=value)
    if isinstance(value, str):
        return _text_comparison(name, sign, value)
    return _number_comparison(name, sign, value)


def _boolean_comparison(name: str, sign: ComparisonOperator, *, value: bool) -> Evaluation:
    if sign not in ("=", "<>"):
        return _unknown
    wanted = value is (sign == "=")

    def compare_boolean(attributes: Attributes) -> bool | None:
        actual = attributes.get(name)
        return actual is wanted if isinstance(actual, bool) else None

    return compare_boolean


def _text_comparison(name: str, sign: ComparisonOperator, value: str) -> Evaluation:
    compare = _COMPARE[sign]

    def equals_text(attributes: Attributes) -> bool | None:
        actual = attributes.get(name)
        return actual == value if isinstance(actual, str) else None

    def compare_text(attributes: Attributes) -> bool | None:
        actual = attributes.get(name)
        return compare(actual, value) if isinstance(actual, str) else None

    return equals_text if sign == "=" else compare_text


def _number_comparison(name: str, sign: ComparisonOperator, value: _Number) -> Evaluation:
    compare = _COMPARE[sign]
    if not _is_number(value):
        return _unknown

    def compare_number(attributes: Attributes) -> bool | None:
        actual = attributes.get(name)
        return compare(actual, value) if type(actual) is int or _is_number(actual) else None

    return compare_number


def _general_comparison(sign: ComparisonOperator, left: TermEvaluation, right: TermEvaluation) -> Evaluation:
    compare = _COMPARE[sign]
    is_equality = sign in ("=", "<>")

    def compare_any(attributes: Attributes) -> bool | None:
        first, second = left(attributes), right(attributes)
        if _is_number(first):
            return compare(first, second) if _is_number(second) else None
        if isinstance(first, str):
            return compare(first, second) if isinstance(second, str) else None
        if is_equality and isinstance(first, bool) and isinstance(second, bool):
            return compare(first, second)
        return None

    return compare_any


def _in_list(condition: InList) -> Evaluation:
    """Equality with any value: false only if it is false for each, so one value of another type makes it unknown."""
    name, values = condition.attribute.name, condition.values
    texts = frozenset(value for value in values if isinstance(value, str))
    booleans = frozenset(value for value in values if isinstance(value, bool))
    numbers = frozenset(value for value in values if _is_number(value))
    unless_text = _if_not_found(values, lambda value: isinstance(value, str))
    unless_boolean = _if_not_found(values, lambda value: isinstance(value, bool))
    unless_number = _if_not_found(values, _is_number)
    unless_null = None if values else False

    def is_in_list(attributes: Attributes) -> bool | None:
        actual = attributes.get(name)
        if isinstance(actual, str):
            return True if actual in texts else unless_text
        if isinstance(actual, bool):
            return True if actual in booleans else unless_boolean
        if _is_number(actual):
            return True if actual in numbers else unless_number
        return unless_null

    return is_in_list


def _if_not_found(values: tuple[Scalar, ...], is_comparable: Callable[[Scalar], bool]) -> bool | None:
    return False if all(map(is_comparable, values)) else None


def _like(condition: Like) -> Evaluation:
    name = condition.attribute.name
    pattern = LikePattern.parse(condition.pattern, condition.escape)
    matches, prefix = pattern.matches, pattern.prefix
    if pattern.literal is not None:
        return _text_comparison(name, "=", pattern.literal)

    def has_prefix(attributes: Attributes) -> bool | None:
        actual = attributes.get(name)
        return actual.startswith(prefix) if isinstance(actual, str) else None

    def is_like(attributes: Attributes) -> bool | None:
        actual = attributes.get(name)
        return matches(actual) if isinstance(actual, str) else None

    return has_prefix if pattern.is_prefix else is_like


def _negative(operand: TermEvaluation) -> TermEvaluation:
    def negative(attributes: Attributes) -> AttributeValue:
        value = operand(attributes)
        return -value if _is_number(value) else None

    return negative


def _arithmetic(
    combine: Callable[[_Number, _Number], _Number | None], left: TermEvaluation, right: TermEvaluation
) -> TermEvaluation:
    def arithmetic(attributes: Attributes) -> AttributeValue:
        first, second = left(attributes), right(attributes)
        if not (_is_number(first) and _is_number(second)):
            return None
        try:
            result = combine(first, second)
        except OverflowError:  # an integer that is too large for the float it meets
            return None
        return result if _is_number(result) else None

    return arithmetic


def _divided(dividend: _Number, divisor: _Number) -> _Number | None:
    if divisor == 0:
        return None
    if isinstance(dividend, float) or isinstance(divisor, float):
        return dividend / divisor
    # Python's own division rounds down, and one through floats would not be exact.
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


_ARITHMETIC: Final[dict[str, Callable[[_Number, _Number], _Number | None]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
}


def _is_number(value: AttributeValue) -> TypeGuard[_Number]:
    """Whether the value can be compared as a number: a boolean cannot, although it is an int in Python, nor can NaN."""
    return isinstance(value, _NUMERIC) and not isinstance(value, bool) and value == value  # noqa: PLR0124


def _unknown(_: Attributes) -> bool | None:
    return None
