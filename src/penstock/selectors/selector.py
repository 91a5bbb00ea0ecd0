"""Selectors: what a subscriber wants, written in SQL and parsed once.

A selector is immutable. Selectors are equal if their normal forms are: ``b = 2 AND a > 1`` equals
``a > 1 AND b = 2``; so subscriptions that mean the same share one entry wherever selectors are kept.
"""

from __future__ import annotations

from typing import Final

from penstock.model.bounded_cache import BoundedCache
from penstock.model.errors import MisuseError
from penstock.model.limits import SELECTOR_CHARS_MAX, SELECTOR_SEARCHES_MAX
from penstock.model.values import Attributes
from penstock.selectors import ast
from penstock.selectors.errors import SelectorTooLargeError
from penstock.selectors.normal_form import Conjunction, normalise
from penstock.selectors.text import parse

__all__ = ["EVERYTHING", "NOTHING", "Selector"]

_CACHED_CHARS_MAX: Final = 1024 * 1024
"""The most characters of cached texts: a selector takes up to thirty times as much as its text."""


class Selector:
    """A condition on the attributes of messages.

    >>> quotes = Selector.parse("symbol = 'YHOO' AND volume > 15")
    >>> quotes.matches({"symbol": "YHOO", "volume": 100})
    True
    >>> quotes.matches({"symbol": "YHOO"})
    False
    >>> str(Selector.parse("volume>15 and symbol='YHOO'"))
    "symbol = 'YHOO' AND volume > 15"
    >>> Selector.parse("symbol = 'YHOO'").covers(quotes)
    True
    """

    __slots__ = ("_text", "condition", "conjunctions")

    def __init__(self, condition: ast.Condition) -> None:
        self.condition: Final = condition
        self.conjunctions: Final[tuple[Conjunction, ...]] = normalise(condition)
        self._text = " OR ".join(map(str, self.conjunctions)) or "FALSE"
        if len(self._text) > SELECTOR_CHARS_MAX:
            problem = f"selector of {len(self._text):,} characters, over the limit of {SELECTOR_CHARS_MAX:,},"
            raise SelectorTooLargeError(problem, self._text, SELECTOR_CHARS_MAX)
        # Hardly any selector has that many patterns, of whatever kind, and needs a closer look.
        if self._text.count(" LIKE ") > SELECTOR_SEARCHES_MAX:
            self._check_searches()

    def _check_searches(self) -> None:
        # Count distinct ones, since the normal form repeats parts of the text.
        searches = set().union(*(each.searches() for each in self.conjunctions))
        if len(searches) > SELECTOR_SEARCHES_MAX:
            problem = (
                f"selector searches for {len(searches):,} LIKE patterns, over the limit of {SELECTOR_SEARCHES_MAX},"
            )
            raise SelectorTooLargeError(problem, self._text, self._text.find(" LIKE ") + 1)

    @staticmethod
    def parse(text: str) -> Selector:
        """The selector of a text in SQL-92/JMS or PADRES form; raises ``SelectorError`` if it is neither."""
        return _parse(text)

    def matches(self, attributes: Attributes) -> bool:
        """Whether the selector is true of these attributes; unknown is not true."""
        return any(each.matches(attributes) for each in self.conjunctions)

    def covers(self, other: Selector) -> bool:
        """Whether every message that matches the other selector matches this one too.

        True is never wrong; nor is False, where both are conjunctions of simple predicates.
        """
        return all(any(mine.covers(theirs) for mine in self.conjunctions) for theirs in other.conjunctions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.conjunctions == other.conjunctions

    def __hash__(self) -> int:
        return hash(self.conjunctions)

    def __reduce__(self) -> tuple[type[Selector], tuple[ast.Condition]]:
        return (Selector, (self.condition,))

    def __and__(self, other: Selector) -> Selector:
        """Both: ``(attr("class") == "STOCK") & (attr("volume") > 15)``."""
        return Selector(ast.And((*_operands(self, ast.And), *_operands(other, ast.And))))

    def __or__(self, other: Selector) -> Selector:
        """At least one of the two."""
        return Selector(ast.Or((*_operands(self, ast.Or), *_operands(other, ast.Or))))

    def __invert__(self) -> Selector:
        """The opposite; unknown stays unknown, and does not match."""
        return Selector(ast.Not(self.condition))

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Selector.parse({self._text!r})"

    def __bool__(self) -> bool:
        # Python reads `1 < attr("x") < 5` as `1 < attr("x") and attr("x") < 5`: half of it would vanish silently.
        raise MisuseError("a selector cannot be used as a boolean: ask matches(), and combine with &, | and ~")


# Subscribers ask for the same things again and again, above all after a reconnect.
_parsed: Final[BoundedCache[str, Selector]] = BoundedCache(_CACHED_CHARS_MAX)


def _parse(text: str) -> Selector:
    selector = _parsed.get(text)
    if selector is None:
        selector = Selector(parse(text))
        _parsed.put(text, selector, len(text) + len(str(selector)))
    return selector


def _operands(selector: Selector, kind: type[ast.And | ast.Or]) -> tuple[ast.Condition, ...]:
    # Flattened, so that joining a thousand conditions one by one does not build a deep tree.
    condition = selector.condition
    return condition.operands if isinstance(condition, kind) else (condition,)


EVERYTHING: Final = Selector(ast.Constant(value=True))
NOTHING: Final = Selector(ast.Constant(value=False))
