"""The syntax tree of a selector: what the parsers and the Python builder make, and all else reads.

Two kinds of nodes: *terms* have a scalar value or none (unknown); *conditions* are true, false or unknown.
``BETWEEN`` has no node of its own: it is the conjunction of two comparisons, exactly as SQL-92 defines it; a bare
boolean attribute used as a condition is the comparison with TRUE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

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


@dataclass(slots=True, frozen=True)
class Literal:
    """A value written in the selector."""

    value: Scalar


@dataclass(slots=True, frozen=True)
class Attribute:
    """The value of a message's attribute."""

    name: str


@dataclass(slots=True, frozen=True)
class Negative:
    """A number with its sign changed."""

    operand: Term


@dataclass(slots=True, frozen=True)
class Arithmetic:
    """Two numbers combined; integers divide as in JMS, towards zero; a division by zero is unknown."""

    operator: ArithmeticOperator
    left: Term
    right: Term


@dataclass(slots=True, frozen=True)
class Constant:
    """A condition that does not depend on the message: TRUE or FALSE."""

    value: bool


@dataclass(slots=True, frozen=True)
class Comparison:
    """Two terms compared; terms of unlike types compare as unknown."""

    operator: ComparisonOperator
    left: Term
    right: Term


@dataclass(slots=True, frozen=True)
class InList:
    """An attribute among some values."""

    attribute: Attribute
    values: tuple[Scalar, ...]


@dataclass(slots=True, frozen=True)
class Like:
    """A text attribute against a pattern with ``%`` (any run) and ``_`` (any one character)."""

    attribute: Attribute
    pattern: str
    escape: str | None = None


@dataclass(slots=True, frozen=True)
class IsNull:
    """An attribute that is absent or null; never unknown."""

    attribute: Attribute


@dataclass(slots=True, frozen=True)
class Not:
    """The opposite; unknown stays unknown."""

    operand: Condition


@dataclass(slots=True, frozen=True)
class And:
    """All of them (two or more)."""

    operands: tuple[Condition, ...]


@dataclass(slots=True, frozen=True)
class Or:
    """At least one of them (two or more)."""

    operands: tuple[Condition, ...]


Term: TypeAlias = Literal | Attribute | Negative | Arithmetic
Condition: TypeAlias = Constant | Comparison | InList | Like | IsNull | Not | And | Or
