"""Narrows selectors to some pubends: a condition on an attribute that no message has, but every stream.

A subscription to some pubends is a selector with one more condition, on the reserved attribute ``$pubend``. Covering
sets, filters of other brokers and indexes then need no rules of their own for pubends. A broker adds the attribute just
before it matches a message, and only if it knows such a condition; messages do not carry it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from penstock.model.values import CONVERSING, RESERVED_PREFIX, Attributes, AttributeValue
from penstock.selectors import ast
from penstock.selectors.constraint import Values
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import Selector

__all__ = ["PUBEND", "is_reserved", "is_wanted", "names_pubends", "narrowed", "pubends_of", "seen_in"]

PUBEND: Final = "$pubend"
"""The attribute that stands for the pubend of a message."""


def narrowed(selector: Selector, pubends: Sequence[str]) -> Selector:
    """The part of a selector that these pubends can satisfy, or all of it if none is named.

    >>> str(narrowed(Selector.parse("volume > 15"), ("orders", "trades")))
    "$pubend IN ('orders', 'trades') AND volume > 15"
    """
    if not pubends:
        return selector
    return selector & Selector(ast.InList(ast.Attribute(PUBEND), tuple(pubends)))


def pubends_of(conjunction: Conjunction) -> tuple[str, ...] | None:
    """The pubends that a conjunction is narrowed to; None for all."""
    constraint = conjunction.constraints.get(PUBEND)
    return tuple(map(str, constraint.keys)) if isinstance(constraint, Values) else None


def is_wanted(pubend: str, pubends: Sequence[str]) -> bool:
    """Whether a subscription to these pubends, or to all if none is named, wants this one."""
    return not pubends or pubend in pubends


def names_pubends(conjunctions: Iterable[Conjunction]) -> bool:
    """Whether any of the conjunctions depends on the pubend of a message."""
    return any(PUBEND in each.names() for each in conjunctions)


def seen_in(attributes: Attributes, pubend: str) -> dict[str, AttributeValue]:
    """The attributes of a message of this pubend, as narrowed selectors see them."""
    return {**attributes, PUBEND: pubend}


def is_reserved(conjunction: Conjunction) -> bool:
    """Whether a conjunction selects by reserved attributes: then it sees the system's own publications only."""
    names = conjunction.names() - CONVERSING - {PUBEND}
    return any(name.startswith(RESERVED_PREFIX) for name in names)
