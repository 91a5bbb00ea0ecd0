"""Translates Spark's filters into a selector, pubends and ticks, so that the broker sends fewer messages.

Spark applies every filter again to what arrives. So a filter may be pushed down in a wider form, or not at all, but
never in a narrower one: every row it accepts must pass here. The strict rules of ``fitting`` make that possible; where
a value that does not fit must fail the job, attributes are not filtered here, since a filter would hide such values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import BooleanType, ByteType, DataType, DoubleType, IntegerType, LongType, ShortType, StringType

from penstock.model.errors import MisuseError
from penstock.pipeline.source.columns import STANDARD
from penstock.pipeline.source.positions import TICK_LAST
from penstock.selectors.builder import AttributeTerm, attr
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["Pushed", "pushed"]

_ESCAPE: Final = "\\"
_COMPARE: Final[dict[type[Filter], Callable[[AttributeTerm, Any], Selector]]] = {
    EqualTo: lambda term, value: term == value,
    EqualNullSafe: lambda term, value: term == value,
    GreaterThan: lambda term, value: term > value,
    GreaterThanOrEqual: lambda term, value: term >= value,
    LessThan: lambda term, value: term < value,
    LessThanOrEqual: lambda term, value: term <= value,
}
_PATTERNS: Final[dict[type[Filter], str]] = {StringStartsWith: "{}%", StringEndsWith: "%{}", StringContains: "%{}%"}
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)


@dataclass(slots=True, frozen=True)
class Pushed:
    """What remains to be read after a query's filters."""

    selector: Selector = EVERYTHING
    first: int = 0
    last: int = TICK_LAST
    pubend_filters: tuple[Filter, ...] = field(default=())

    def wants(self, pubend: str) -> bool:
        """Whether this pubend can have matching rows."""
        return all(_holds(each, pubend) is not False for each in self.pubend_filters)


def pushed(
    filters: Iterable[Filter],
    types: Mapping[str, DataType],
    selector: Selector = EVERYTHING,
    *,
    by_attribute: bool = True,
) -> Pushed:
    """Combine the filters with the user's selector; filters that cannot be pushed down are ignored."""
    first, last, pubends = 0, TICK_LAST, []
    for each in filters:
        path = _column(each)
        if path == ("tick",) and "tick" in types:
            low, high = _tick_bounds(each)
            first, last = max(first, low), min(last, high)
        elif path == ("pubend",) and "pubend" in types:
            pubends.append(each)
        elif by_attribute and len(path) == 1 and path[0] in types and path[0] not in STANDARD:
            selector = _narrowed(selector, each, path[0], types[path[0]])
    return Pushed(selector, first, last, tuple(pubends))


def _narrowed(selector: Selector, each: Filter, name: str, kind: DataType) -> Selector:
    try:
        condition = _condition(each, attr(name), kind)
        if condition is None:
            return selector
        both = condition if selector == EVERYTHING else selector & condition
        # Selectors are sent as text: a name that text cannot express, or a list too long for one, is left to Spark.
        Selector.parse(str(both))
    except MisuseError:
        return selector
    return both


def _column(each: Filter) -> tuple[str, ...]:
    inner = each.child if isinstance(each, Not) else each
    return tuple(getattr(inner, "attribute", ()))


def _condition(each: Filter, term: AttributeTerm, kind: DataType) -> Selector | None:
    """What must hold for the attribute if the filter holds for the column; None if there is nothing useful."""
    if isinstance(each, Not):
        # The negation of these holds for null, and a column can be null even if its attribute is present.
        if isinstance(each.child, EqualNullSafe | IsNotNull | Not):
            return None
        if isinstance(each.child, IsNull):
            return term.exists()
        if isinstance(each.child, In) and None in each.child.value:
            return None
        inner = _condition(each.child, term, kind)
        return None if inner is None else ~inner
    if isinstance(each, IsNotNull):
        return term.exists()
    if isinstance(each, In):
        values = tuple(value for value in each.value if value is not None)
        return term.is_in(*values) if values and all(_is_of(kind, value) for value in values) else None
    if (pattern := _PATTERNS.get(type(each))) is not None:
        text = getattr(each, "value", None)
        return (
            term.like(pattern.format(_escaped(text)), _ESCAPE) if isinstance(text, str) and _is_of(kind, text) else None
        )
    compare = _COMPARE.get(type(each))
    value = getattr(each, "value", None)
    return compare(term, value) if compare is not None and _is_of(kind, value) else None


def _is_of(kind: DataType, value: object) -> bool:
    """Whether a literal has the column's own type, so that broker and Spark compare the same things."""
    if isinstance(kind, StringType):
        return type(value) is str
    if isinstance(kind, BooleanType):
        return type(value) is bool
    if isinstance(kind, _WHOLE):
        return type(value) is int
    # Not floats or decimals: their columns hold other numbers than the attributes do.
    return isinstance(kind, DoubleType) and type(value) is float and math.isfinite(value)


def _escaped(text: str) -> str:
    return "".join(f"{_ESCAPE}{char}" if char in ("%", "_", _ESCAPE) else char for char in text)


def _tick_bounds(each: Filter) -> tuple[int, int]:
    value = getattr(each, "value", None)
    match each:
        case In(value=values) if values and all(type(one) is int for one in values):
            return min(values), max(values)
        case EqualTo() | EqualNullSafe() if type(value) is int:
            return value, value
        case GreaterThan() if type(value) is int:
            return value + 1, TICK_LAST
        case GreaterThanOrEqual() if type(value) is int:
            return value, TICK_LAST
        case LessThan() if type(value) is int:
            return 0, value - 1
        case LessThanOrEqual() if type(value) is int:
            return 0, value
    return 0, TICK_LAST


def _holds(each: Filter, pubend: str) -> bool | None:
    """Whether the filter holds for a pubend; None if that cannot be decided here."""
    value = getattr(each, "value", None)
    match each:
        case Not(child=child):
            inner = _holds(child, pubend)
            return None if inner is None else not inner
        case IsNull():
            return False
        case In(value=values):
            return True if pubend in values else None if None in values else False
    if not isinstance(value, str):
        return None
    match each:
        case EqualTo() | EqualNullSafe():
            return pubend == value
        case StringStartsWith():
            return pubend.startswith(value)
        case StringEndsWith():
            return pubend.endswith(value)
        case StringContains():
            return value in pubend
    return None
