"""Which attributes a condition needs: without any of them it is true of no message, whatever else is in it.

A condition that is evaluated as a whole costs what its parts cost. Most messages have none of the attributes that an
unusual condition speaks of, and then a look at their names is enough.
"""

from __future__ import annotations

from penstock.selectors import ast

__all__ = ["needs_of"]


def needs_of(condition: ast.Condition, *, negated: bool = False) -> frozenset[str] | None:
    """Attributes of which a message must have one for the condition, or its opposite, to be true; None if none is."""
    match condition:
        case ast.Constant(value):
            return None if value is not negated else frozenset()
        case ast.Not(operand):
            return needs_of(operand, negated=not negated)
        case ast.IsNull(attribute):
            return frozenset((attribute.name,)) if negated else None
        case ast.InList(attribute) | ast.Like(attribute):
            return frozenset((attribute.name,))
        case ast.Comparison(_, left, right):
            # What compares with nothing is unknown, and so is its opposite.
            names = _names_in(left) or _names_in(right)
            return frozenset(names[:1]) if names else None
        case ast.And(operands) | ast.Or(operands):
            needs = [needs_of(each, negated=negated) for each in operands]
            return _of_all(needs) if isinstance(condition, ast.And) is not negated else _of_any(needs)


def _of_all(needs: list[frozenset[str] | None]) -> frozenset[str] | None:
    """Of conditions that must all be true: the fewest that one of them needs."""
    return min((each for each in needs if each is not None), key=len, default=None)


def _of_any(needs: list[frozenset[str] | None]) -> frozenset[str] | None:
    """Of conditions of which one must be true: what any of them needs."""
    needed: set[str] = set()
    for each in needs:
        if each is None:
            return None
        needed |= each
    return frozenset(needed)


def _names_in(term: ast.Term) -> list[str]:
    match term:
        case ast.Attribute(name):
            return [name]
        case ast.Negative(operand):
            return _names_in(operand)
        case ast.Arithmetic(_, left, right):
            return _names_in(left) or _names_in(right)
        case _:
            return []
