"""Parses subscriptions and publications in the list notation of PADRES: ``[class,=,'STOCK'],[volume,>,15]``.

A subscription is the conjunction of its ``[attribute,operator,value]`` lists, a publication a row of
``[attribute,value]`` lists. Where PADRES leaves the notation open: inside quotes the quote is doubled or follows a
backslash (a backslash before anything but a quote or a backslash stands for itself); a word without quotes is a number
or a boolean if it looks like one, else a text; the ``str-`` operators take any word as a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from penstock.model.limits import INTEGER_MAX, SELECTOR_NODES_MAX
from penstock.model.values import Scalar
from penstock.selectors.ast import (
    And,
    Attribute,
    Comparison,
    ComparisonOperator,
    Condition,
    Constant,
    IsNull,
    Like,
    Literal,
    Not,
)
from penstock.selectors.errors import SelectorError
from penstock.selectors.lexer import checked_name, checked_text, finite, out_of_range, small_integer
from penstock.selectors.like import LikePattern, Wildcard

__all__ = ["parse_padres", "parse_padres_publication"]

_COMPARISONS: Final[dict[str, ComparisonOperator]] = {
    "=": "=",
    "eq": "=",
    "<>": "<>",
    "neq": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_TEXT_COMPARISONS: Final[dict[str, ComparisonOperator]] = {
    "str-lt": "<",
    "str-le": "<=",
    "str-gt": ">",
    "str-ge": ">=",
}
_PATTERNS: Final[dict[str, Callable[[str], tuple[str | Wildcard, ...]]]] = {
    "str-prefix": lambda text: (text, Wildcard.ANY),
    "str-postfix": lambda text: (Wildcard.ANY, text),
    "str-suffix": lambda text: (Wildcard.ANY, text),
    "str-contains": lambda text: (Wildcard.ANY, text, Wildcard.ANY),
}
_PRESENCE: Final = "ispresent"
_OPERATORS: Final = frozenset((*_COMPARISONS, *_TEXT_COMPARISONS, *_PATTERNS, _PRESENCE))

_NODES_PER_PREDICATE: Final = 3

# Groups: punctuation, a quoted text, a word, and anything else (an unpaired quote).
_TOKEN: Final = re.compile(
    r"""\s*+ (?:
        ([\[\],])
      | ('(?:[^'\\]|''|\\.)*+'|"(?:[^"\\]|""|\\.)*+")
      | ([^\s\[\],'"]++)
      | (.)
      | \Z
    )""",
    re.VERBOSE | re.DOTALL,
)
_PUNCTUATION, _QUOTED, _WORD, _BAD = range(1, 5)
_END: Final = 0

_ESCAPES: Final = {"'": re.compile(r"""'(')|\\(['"\\])"""), '"': re.compile(r""""(")|\\(['"\\])""")}
_INTEGER: Final = re.compile(r"([+-]?)([0-9]++)")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def parse_padres(text: str) -> Condition:
    """The condition of a subscription; blank text is TRUE, as in SQL."""
    reader = _Reader(text)
    predicates: list[Condition] = []
    while reader.opens_list(first=not predicates):
        predicates.append(_predicate(reader))
    # Nothing to refuse here: a predicate takes more characters than it makes nodes, and the characters are limited.
    assert len(predicates) * _NODES_PER_PREDICATE < SELECTOR_NODES_MAX
    if len(predicates) > 1:
        return And(tuple(predicates))
    return predicates[0] if predicates else Constant(value=True)


def parse_padres_publication(text: str) -> dict[str, Scalar]:
    """The attributes of a publication, in the order written."""
    reader = _Reader(text)
    attributes: dict[str, Scalar] = {}
    while reader.opens_list(first=not attributes):
        position = reader.position
        name = reader.name()
        if name in attributes:
            raise SelectorError(f"expected each attribute once, found {name!r} again", text, position)
        reader.expect(",")
        attributes[name] = reader.value()
        reader.expect("]")
    return attributes


def _predicate(reader: _Reader) -> Condition:
    """One ``[attribute,operator,value]``, from after the opening bracket."""
    attribute = Attribute(reader.name())
    reader.expect(",")
    operator = reader.operator()
    if operator == _PRESENCE:
        if reader.skip(","):
            reader.value()
        reader.expect("]")
        return Not(IsNull(attribute))
    reader.expect(",")
    condition = _test(attribute, operator, reader)
    reader.expect("]")
    return condition


def _test(attribute: Attribute, operator: str, reader: _Reader) -> Condition:
    if operator in _COMPARISONS:
        return Comparison(_COMPARISONS[operator], attribute, Literal(reader.value()))
    if operator in _TEXT_COMPARISONS:
        return Comparison(_TEXT_COMPARISONS[operator], attribute, Literal(reader.string()))
    return Like(attribute, *LikePattern(_PATTERNS[operator](reader.string())).text())


class _Reader:
    """Reads token after token; ``position`` is where the next one starts."""

    __slots__ = ("_group", "_lexeme", "_text", "_tokens", "position")

    def __init__(self, text: str) -> None:
        checked_text(text)
        self._text, self._tokens = text, _TOKEN.finditer(text)
        self._step()

    def opens_list(self, *, first: bool) -> bool:
        """Step into the next list; False if there is none."""
        if self._group == _END:
            return False
        if not first:
            self.expect(",", "',' or the end")
        self.expect("[")
        return True

    def expect(self, punctuation: str, expected: str | None = None) -> None:
        if not self.skip(punctuation):
            raise self._unexpected(expected or f"'{punctuation}'")

    def skip(self, punctuation: str) -> bool:
        found = self._group == _PUNCTUATION and self._lexeme == punctuation
        if found:
            self._step()
        return found

    def name(self) -> str:
        if self._group == _WORD and (self._lexeme[0].isalpha() or self._lexeme[0] in "_$"):
            name = self._lexeme
        elif self._group == _QUOTED:
            name = _unquoted(self._lexeme)
        else:
            raise self._unexpected("the name of an attribute")
        checked_name(name, self._text, self.position)
        self._step()
        return name

    def operator(self) -> str:
        operator = self._lexeme.lower()
        if self._group != _WORD or operator not in _OPERATORS:
            raise self._unexpected("an operator")
        self._step()
        return operator

    def value(self) -> Scalar:
        """A text, number or boolean."""
        if self._group == _WORD:
            value = _word_value(self._lexeme, self._text, self.position)
            self._step()
            return value
        return self.string()

    def string(self) -> str:
        """A text, even if it looks like a number."""
        if self._group not in (_WORD, _QUOTED):
            raise self._unexpected("a value")
        value = self._lexeme if self._group == _WORD else _unquoted(self._lexeme)
        self._step()
        return value

    def _step(self) -> None:
        match = next(self._tokens)
        self._group = match.lastindex or _END
        self._lexeme = match[self._group] if self._group else ""
        self.position = match.start(self._group) if self._group else len(self._text)
        if self._group == _BAD:
            problem = f"expected a closing {self._lexeme} for this text, found the end"
            raise SelectorError(problem, self._text, self.position)

    def _unexpected(self, expected: str) -> SelectorError:
        found = {_END: "the end", _QUOTED: f"the text {self._lexeme}"}.get(self._group, f"'{self._lexeme}'")
        return SelectorError(f"expected {expected}, found {found}", self._text, self.position)


def _unquoted(lexeme: str) -> str:
    return _ESCAPES[lexeme[0]].sub(lambda match: match[match.lastindex or 0], lexeme[1:-1])


def _word_value(word: str, text: str, position: int) -> Scalar:
    lowered = word.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if match := _INTEGER.fullmatch(word):
        size = small_integer(match[2])
        value = size if size is None or match[1] != "-" else -size
        if value is None or value > INTEGER_MAX:
            raise out_of_range(word, text, position)
        return value
    return finite(word, text, position) if _FLOAT.fullmatch(word) else word
