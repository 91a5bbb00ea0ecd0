"""Estimates the work of evaluating a condition, so that a broker can limit it per turn.

The unit is one comparison, arithmetic operation or search: about half a microsecond. Searching a long text takes longer
than a short one, so a message counts by its size as well.
"""

from __future__ import annotations

from typing import Final

from penstock.selectors import ast

__all__ = ["TURN_EFFORT_MAX", "effort_of", "effort_of_bytes", "effort_with"]

TURN_EFFORT_MAX: Final = 100_000
"""The most effort in one go, some tens of milliseconds; the rest has to wait while others get their turn."""
_BYTES_PER_STEP: Final = 1_024


def effort_of(condition: ast.Condition) -> int:
    """How many operations a condition needs at most.

    >>> from penstock.selectors.text import parse
    >>> effort_of(parse("symbol = 'YHOO' AND volume + 1 > 15"))
    3
    """
    match condition:
        case ast.Not(operand):
            return effort_of(operand)
        case ast.And(operands) | ast.Or(operands):
            return sum(map(effort_of, operands))
        case ast.Comparison(_, left, right):
            return 1 + _operations(left) + _operations(right)
        case _:
            return 1


def effort_of_bytes(effort: int, size_bytes: int) -> int:
    """What the size of messages adds to the effort of one or several conditions on each of them."""
    return effort * (size_bytes // _BYTES_PER_STEP)


def effort_with(effort: int, body: bytes) -> int:
    """The effort of one or several conditions on one message."""
    return effort + effort_of_bytes(effort, len(body))


def _operations(term: ast.Term) -> int:
    match term:
        case ast.Negative(operand):
            return 1 + _operations(operand)
        case ast.Arithmetic(_, left, right):
            return 1 + _operations(left) + _operations(right)
        case _:
            return 0
