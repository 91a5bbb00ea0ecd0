"""Turns archived attributes back into values: the archive stores text, but selectors distinguish text from numbers.

An attribute that selectors compare with text stays text; one that they compare with numbers or booleans is parsed where
it looks like one. Where selectors do both, looks decide, so a text ``"15"`` counts as a number there: the archive does
not record the type. Attributes that no selector names are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.model.values import AttributeValue
from penstock.selectors import ast
from penstock.selectors.selector import Selector

__all__ = ["AttributeKinds", "kinds_of"]

_Kind: TypeAlias = Literal["text", "number", "truth", "any"]
_TRUTHS: Final = {"true": True, "false": False}


@dataclass(slots=True, frozen=True)
class AttributeKinds:
    """The types that selectors expect of each attribute."""

    kinds: Mapping[str, frozenset[_Kind]]

    def values(self, attributes: Iterable[tuple[str, str | None]]) -> dict[str, AttributeValue]:
        """The attributes that selectors name, converted to the expected types."""
        kinds = self.kinds
        return {name: _value(text, kinds[name]) for name, text in attributes if text is not None and name in kinds}


def kinds_of(selectors: Iterable[Selector]) -> AttributeKinds:
    """Find the types that these selectors expect of attributes."""
    found: dict[str, set[_Kind]] = {}
    for selector in selectors:
        for name, kind in _uses(selector.condition):
            found.setdefault(name, set()).add(kind)
    return AttributeKinds({name: frozenset(kinds) for name, kinds in sorted(found.items())})


def _value(text: str, kinds: frozenset[_Kind]) -> AttributeValue:
    if kinds == {"text"}:
        return text
    if "number" in kinds or "any" in kinds:
        number = _number(text)
        if number is not None:
            return number
    if "truth" in kinds or "any" in kinds:
        return _TRUTHS.get(text, text)
    return text


def _number(text: str) -> int | float | None:
    """Parse a number in the form Python prints it, if it is one: ``007`` and ``1_000`` are text."""
    with suppress(ValueError):
        if str(number := int(text)) == text:
            return number
    with suppress(ValueError):
        if repr(real := float(text)) == text:
            return real
    return None


def _uses(node: ast.Condition | ast.Term) -> Iterator[tuple[str, _Kind]]:
    match node:
        case ast.Comparison(_, left, right):
            yield from _compared(left, right)
            yield from _compared(right, left)
        case ast.InList(attribute, values):
            for value in values:
                yield attribute.name, _kind(value)
        case ast.Like(attribute):
            yield attribute.name, "text"
        case ast.IsNull(attribute):
            # Only its presence matters.
            yield attribute.name, "text"
        case ast.Not(operand):
            yield from _uses(operand)
        case ast.And(operands) | ast.Or(operands):
            for each in operands:
                yield from _uses(each)
        case _:
            pass


def _compared(term: ast.Term, other: ast.Term) -> Iterator[tuple[str, _Kind]]:
    match term:
        case ast.Attribute(name):
            match other:
                case ast.Literal(value):
                    yield name, _kind(value)
                case ast.Attribute():
                    yield name, "any"
                case _:
                    yield name, "number"
        case ast.Negative() | ast.Arithmetic():
            for name in _names(term):
                yield name, "number"
        case _:
            pass


def _names(term: ast.Term) -> Iterator[str]:
    match term:
        case ast.Attribute(name):
            yield name
        case ast.Negative(operand):
            yield from _names(operand)
        case ast.Arithmetic(_, left, right):
            yield from _names(left)
            yield from _names(right)
        case _:
            pass


def _kind(value: object) -> _Kind:
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, int | float) else "text"
