"""Handles single predicates: negates them, folds constants, and finds the constraint they put on an attribute.

The step between the syntax tree and the normal form; everything here looks at one predicate at a time.
"""

from __future__ import annotations

from typing import Final

from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.model.values import Scalar
from penstock.selectors import ast
from penstock.selectors.constraint import Constraint, Exists, Null, Range, Values, key_of, prefix_end
from penstock.selectors.evaluate import compile_condition, compile_term
from penstock.selectors.like import LikePattern

__all__ = ["FALSE", "TRUE", "fold", "leaf_of", "opposite"]

TRUE: Final = ast.Constant(value=True)
FALSE: Final = ast.Constant(value=False)

_OPPOSITES: Final[dict[ast.ComparisonOperator, ast.ComparisonOperator]] = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}
_MIRRORED: Final[dict[ast.ComparisonOperator, ast.ComparisonOperator]] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    ">": "<",
    "<=": ">=",
    ">=": "<=",
}


def opposite(leaf: ast.Condition) -> ast.Condition:
    """The predicate that is true where this one is false, and unknown where it is unknown."""
    match leaf:
        case ast.Constant(value):
            return FALSE if value else TRUE
        case ast.Comparison(operator, left, right):
            return ast.Comparison(_OPPOSITES[operator], left, right)
        case _:
            return ast.Not(leaf)


def fold(leaf: ast.Condition) -> ast.Condition:
    """The predicate with constant terms computed and a lone constant on the right."""
    if not isinstance(leaf, ast.Comparison):
        return leaf
    if isinstance(leaf.left, ast.Attribute) and isinstance(leaf.right, ast.Literal):
        return leaf
    left, right = _fold_term(leaf.left), _fold_term(leaf.right)
    if isinstance(left, ast.Literal) and not isinstance(right, ast.Literal):
        return ast.Comparison(_MIRRORED[leaf.operator], right, left)
    return ast.Comparison(leaf.operator, left, right)


def leaf_of(leaf: ast.Condition) -> tuple[str, Constraint] | ast.Condition:
    """The folded predicate as a constraint on one attribute, or as TRUE or FALSE, or else the predicate itself.

    Only "is it true" matters from here on, so a predicate that is always unknown is FALSE.
    """
    match leaf:
        case ast.Comparison(operator, ast.Attribute(name), ast.Literal(value)):
            return _named(name, _comparison(operator, value))
        case ast.Comparison(_, ast.Literal(), ast.Literal()):
            return TRUE if compile_condition(leaf)({}) is True else FALSE
        case ast.InList(ast.Attribute(name), values):
            return _named(name, Values.of(map(key_of, values)))
        case ast.Not(ast.InList(ast.Attribute(name), values)):
            return _named(name, _none_of(values)) if values else TRUE
        case ast.Like(ast.Attribute(name), pattern, escape):
            return _named(name, _like(LikePattern.parse(pattern, escape)))
        case ast.Not(ast.Like(ast.Attribute(name), pattern, escape)):
            return _named(name, _not_like(LikePattern.parse(pattern, escape)))
        case ast.IsNull(ast.Attribute(name)):
            return (name, Null())
        case ast.Not(ast.IsNull(ast.Attribute(name))):
            return (name, Exists())
        case _:
            return leaf


def _named(name: str, constraint: Constraint | None) -> tuple[str, Constraint] | ast.Condition:
    return FALSE if constraint is None else (name, constraint)


def _comparison(operator: ast.ComparisonOperator, value: Scalar) -> Constraint | None:
    if isinstance(value, bool):
        if operator not in {"=", "<>"}:
            return None
        return Values((key_of(value if operator == "=" else not value),))
    text = isinstance(value, str)
    match operator:
        case "=":
            return Values.of((value,))
        case "<>":
            return Range.of(text=text, excluded=(value,))
        case "<" | "<=":
            return Range.of(text=text, high=value, high_open=operator == "<")
        case ">" | ">=":
            return Range.of(text=text, low=value, low_open=operator == ">")


def _none_of(values: tuple[Scalar, ...]) -> Constraint | None:
    kinds = {bool if isinstance(value, bool) else str if isinstance(value, str) else float for value in values}
    if len(kinds) > 1:
        # Whatever the attribute is, its comparison with the values of another type is unknown.
        return None
    if kinds == {bool}:
        return Values.of(key_of(value) for value in (False, True) if value not in values)
    return Range.of(text=kinds == {str}, excluded=values)


def _like(pattern: LikePattern) -> Constraint | None:
    if pattern.literal is not None:
        return Values((pattern.literal,))
    end = prefix_end(pattern.prefix)
    return Range.of(
        text=True,
        low=pattern.prefix,
        high=end,
        high_open=end is not None,
        patterns=() if pattern.is_prefix else (pattern,),
    )


def _not_like(pattern: LikePattern) -> Constraint | None:
    if pattern.literal is not None:
        return Range.of(text=True, excluded=(pattern.literal,))
    return Range.of(text=True, unlike=(pattern,))


def _fold_term(term: ast.Term) -> ast.Term:
    match term:
        case ast.Negative(operand):
            return _as_literal(ast.Negative(_fold_term(operand)))
        case ast.Arithmetic(operator, left, right):
            return _as_literal(ast.Arithmetic(operator, _fold_term(left), _fold_term(right)))
        case _:
            return term


def _as_literal(term: ast.Negative | ast.Arithmetic) -> ast.Term:
    operands = (term.operand,) if isinstance(term, ast.Negative) else (term.left, term.right)
    if not all(isinstance(each, ast.Literal) for each in operands):
        return term
    value = compile_term(term)({})
    # A value that has no literal (too large, infinite, unknown) stays as it was written.
    return ast.Literal(value) if value is not None and _can_be_written(value) else term


def _can_be_written(value: Scalar) -> bool:
    if isinstance(value, float):
        return abs(value) != float("inf")
    return isinstance(value, int) and INTEGER_MIN <= value <= INTEGER_MAX
