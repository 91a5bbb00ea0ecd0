"""Prints syntax trees and constraints as selector text, in the one spelling that parses back to the same thing."""

from __future__ import annotations

import re
from typing import Final

from penstock.model.values import Scalar
from penstock.selectors import ast
from penstock.selectors.constraint import Constraint, Exists, Null, Range, Values, intersect, prefix_end
from penstock.selectors.like import LikePattern, Wildcard

__all__ = ["KEYWORDS", "condition_text", "constraint_texts", "identifier_text", "literal_text"]

KEYWORDS: Final = frozenset(
    {"AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"},
)
"""The reserved words of the selector language (JMS 2.0 section 3.8.1.1), in upper case.

A name that is one of these, in any case, must be written in double quotes.
"""

_STRENGTHS: Final[dict[ast.ArithmeticOperator, int]] = {"+": 1, "-": 1, "*": 2, "/": 2}
_PLAIN_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*(?:\.[A-Za-z_$][A-Za-z0-9_$]*)*\Z")


def literal_text(value: Scalar) -> str:
    """A value as a literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def identifier_text(name: str) -> str:
    """An attribute's name, in double quotes where the bare name would not parse."""
    if _PLAIN_IDENTIFIER.match(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def constraint_texts(name: str, constraint: Constraint) -> list[str]:
    """The predicates that make up a constraint on the named attribute."""
    subject = identifier_text(name)
    if isinstance(constraint, Null):
        return [f"{subject} IS NULL"]
    if isinstance(constraint, Exists):
        return [f"{subject} IS NOT NULL"]
    if isinstance(constraint, Values):
        return [_values_text(subject, constraint)]
    texts = [
        *(_like_text(subject, "LIKE", pattern) for pattern in constraint.patterns),
        *_bounds_texts(subject, constraint),
        *(f"{subject} <> {literal_text(value)}" for value in constraint.excluded),
        *(_like_text(subject, "NOT LIKE", pattern) for pattern in constraint.unlike),
    ]
    return texts or [_like_text(subject, "LIKE", LikePattern((Wildcard.ANY,)))]


def condition_text(condition: ast.Condition) -> str:
    """A condition with just the parentheses it needs."""
    match condition:
        case ast.Constant(value):
            return "TRUE" if value else "FALSE"
        case ast.Comparison(operator, left, right):
            return f"{_term_text(left)} {operator} {_term_text(right)}"
        case ast.InList(attribute, values):
            return f"{identifier_text(attribute.name)} IN ({', '.join(map(literal_text, values))})"
        case ast.Like(attribute, pattern, escape):
            return _like_text(identifier_text(attribute.name), "LIKE", LikePattern.parse(pattern, escape))
        case ast.IsNull(attribute):
            return f"{identifier_text(attribute.name)} IS NULL"
        case ast.Not(operand):
            return f"NOT ({condition_text(operand)})"
        case ast.And(operands):
            return " AND ".join(_operand_text(each, inside_and=True) for each in operands)
        case ast.Or(operands):
            return " OR ".join(_operand_text(each, inside_and=False) for each in operands)


def _operand_text(condition: ast.Condition, *, inside_and: bool) -> str:
    text = condition_text(condition)
    wrapped = isinstance(condition, ast.Or) or (inside_and and isinstance(condition, ast.And))
    return f"({text})" if wrapped else text


def _term_text(term: ast.Term) -> str:
    match term:
        case ast.Literal(value):
            return literal_text(value)
        case ast.Attribute(name):
            return identifier_text(name)
        case ast.Negative(operand):
            bare = isinstance(operand, ast.Attribute | ast.Negative)
            return f"-{_term_text(operand)}" if bare else f"-({_term_text(operand)})"
        case ast.Arithmetic(operator, left, right):
            # Operators group to the left, and that grouping is kept: (a + b) + c and a + (b + c) differ for floats.
            strength = _STRENGTHS[operator]
            return f"{_grouped(left, strength)} {operator} {_grouped(right, strength + 1)}"


def _grouped(term: ast.Term, strength: int) -> str:
    text = _term_text(term)
    weaker = isinstance(term, ast.Arithmetic) and _STRENGTHS[term.operator] < strength
    return f"({text})" if weaker else text


def _values_text(subject: str, constraint: Values) -> str:
    texts = [literal_text(key[0] if isinstance(key, tuple) else key) for key in constraint.keys]
    return f"{subject} = {texts[0]}" if len(texts) == 1 else f"{subject} IN ({', '.join(texts)})"


def _like_text(subject: str, operator: str, pattern: LikePattern) -> str:
    text, escape = pattern.text()
    suffix = "" if escape is None else f" ESCAPE {literal_text(escape)}"
    return f"{subject} {operator} {literal_text(text)}{suffix}"


def _bounds_texts(subject: str, constraint: Range) -> list[str]:
    """The bounds, except those that a printed pattern implies by its own literal prefix."""
    if constraint.prefix and not constraint.patterns:
        return [_like_text(subject, "LIKE", LikePattern((constraint.prefix, Wildcard.ANY)))]
    implied = _implied_by_patterns(constraint)
    texts = []
    if constraint.low is not None and (constraint.low, constraint.low_open) != (implied.low, implied.low_open):
        texts.append(f"{subject} {'>' if constraint.low_open else '>='} {literal_text(constraint.low)}")
    if constraint.high is not None and (constraint.high, constraint.high_open) != (implied.high, implied.high_open):
        texts.append(f"{subject} {'<' if constraint.high_open else '<='} {literal_text(constraint.high)}")
    return texts


def _implied_by_patterns(constraint: Range) -> Range:
    implied: Constraint | None = Range(constraint.text, "" if constraint.text else None)
    for pattern in constraint.patterns:
        assert implied is not None
        end = prefix_end(pattern.prefix)
        implied = intersect(implied, Range(True, pattern.prefix, False, end, end is not None))  # noqa: FBT003
    # A range with such patterns exists, so they do not contradict each other.
    assert isinstance(implied, Range)
    return implied
