"""The syntax tree of a selector: made by the parsers and the Python builder, read by everything else.

Two kinds of nodes: *terms* have a scalar value or none (unknown); *conditions* are true, false or unknown.
``BETWEEN`` has no node of its own: it is the conjunction of two comparisons, exactly as SQL-92 defines it; a bare
boolean attribute used as a condition is the comparison with TRUE.
"""

from __future__ import annotations

from typing import Literal as OneOf
from typing import TypeAlias

import msgspec

from penstock.model.values import Scalar

__all__ = [
    "And",
    "Arithmetic",
    "ArithmeticOperator",
    "Attribute",
    "Comparison",
    "ComparisonOperator",
    "Condition",
    "Constant",
    "InList",
    "IsNull",
    "Like",
    "Literal",
    "Negative",
    "Not",
    "Or",
    "Term",
]

ComparisonOperator: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">="]
ArithmeticOperator: TypeAlias = OneOf["+", "-", "*", "/"]


class Literal(msgspec.Struct, frozen=True):
    """A value written in the selector."""

    value: Scalar


class Attribute(msgspec.Struct, frozen=True):
    """The value of a message's attribute."""

    name: str


class Negative(msgspec.Struct, frozen=True):
    """A number with its sign changed."""

    operand: Term


class Arithmetic(msgspec.Struct, frozen=True):
    """Two numbers combined; integers divide as in JMS, towards zero; a division by zero is unknown."""

    operator: ArithmeticOperator
    left: Term
    right: Term


class Constant(msgspec.Struct, frozen=True):
    """A condition that does not depend on the message: TRUE or FALSE."""

    value: bool


class Comparison(msgspec.Struct, frozen=True):
    """Two terms compared; terms of unlike types compare as unknown."""

    operator: ComparisonOperator
    left: Term
    right: Term


class InList(msgspec.Struct, frozen=True):
    """An attribute among some values."""

    attribute: Attribute
    values: tuple[Scalar, ...]


class Like(msgspec.Struct, frozen=True):
    """A text attribute against a pattern with ``%`` (any run) and ``_`` (any one character)."""

    attribute: Attribute
    pattern: str
    escape: str | None = None


class IsNull(msgspec.Struct, frozen=True):
    """An attribute that is absent or null; never unknown."""

    attribute: Attribute


class Not(msgspec.Struct, frozen=True):
    """The opposite; unknown stays unknown."""

    operand: Condition


class And(msgspec.Struct, frozen=True):
    """All of the operands (two or more)."""

    operands: tuple[Condition, ...]


class Or(msgspec.Struct, frozen=True):
    """At least one of the operands (two or more)."""

    operands: tuple[Condition, ...]


Term: TypeAlias = Literal | Attribute | Negative | Arithmetic
Condition: TypeAlias = Constant | Comparison | InList | Like | IsNull | Not | And | Or
