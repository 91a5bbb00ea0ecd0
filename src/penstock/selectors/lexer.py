"""Cuts the text of an SQL selector into tokens (JMS 2.0 section 3.8.1.1).

Deviations from JMS: ``!=`` is another way to write ``<>``, and names may be quoted as in SQL-92 (``"odd name"``).
Octal integers do not exist: a leading zero means nothing, as in SQL.
"""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

from penstock.model.limits import INTEGER_MAX, NAME_CHARS_MAX, SELECTOR_CHARS_MAX
from penstock.selectors.ast import Attribute, Literal
from penstock.selectors.errors import SelectorError, SelectorTooLargeError

__all__ = [
    "END",
    "NAME",
    "NUMBER",
    "STRING",
    "TOO_BIG",
    "Token",
    "checked_name",
    "checked_text",
    "describe",
    "finite",
    "out_of_range",
    "small_integer",
    "tokenize",
]

Token: TypeAlias = tuple[str, Attribute | Literal | None, int]
"""Kind, leaf of the syntax tree if it is one, and position. A plain tuple: tokens are most of the cost of parsing.

The kind of a keyword or an operator is the keyword (in capitals) or the operator itself.
"""

END: Final = "end"
NAME: Final = "name"
STRING: Final = "string"
NUMBER: Final = "number"
TOO_BIG: Final = "too big"
"""The one integer that is in range only after a minus sign: the parser knows whether there is one."""

_KEYWORDS: Final[dict[str, Literal | None]] = {
    **dict.fromkeys(("AND", "BETWEEN", "ESCAPE", "IN", "IS", "LIKE", "NOT", "NULL", "OR")),
    "TRUE": Literal(value=True),
    "FALSE": Literal(value=False),
}

# Possessive quantifiers throughout, so that no text whatsoever makes the engine backtrack. A number must not run into a
# word: "5AND" and "0x" are mistakes, not two tokens. The last group catches everything that is no token at all.
_TOKEN: Final = re.compile(
    r"""\s*+ (?:
        ((?!\d)[\w$][\w$.]*+)
      | (<>|<=|>=|!=|[=<>+\-*/(),])
      | ('(?:[^']|'')*+')
      | ([0-9]++[lL]?(?![\w$.]))
      | ((?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[dDfF]?(?![\w$.]))
      | (0[xX][0-9a-fA-F]++[lL]?(?![\w$.]))
      | ("(?:[^"]|"")*+")
      | (.)
      | \Z
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORD, _OPERATOR, _STRING, _EXACT, _APPROXIMATE, _HEXADECIMAL, _QUOTED_NAME, _BAD = range(1, 9)

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_RUN: Final = re.compile(r"[\w$.]*+")
_DESCRIBED_CHARS_MAX: Final = 40


def tokenize(text: str) -> list[Token]:
    """All tokens of the text, the last one being ``END``."""
    checked_text(text)
    tokens: list[Token] = []
    append = tokens.append
    for match in _TOKEN.finditer(text):
        group = match.lastindex
        if group is None:
            break
        lexeme, position = match[group], match.start(group)
        if group == _WORD:
            append(_word(lexeme, text, position))
        elif group == _OPERATOR:
            append((lexeme if lexeme != "!=" else "<>", None, position))
        elif group == _STRING:
            append((STRING, Literal(lexeme[1:-1].replace("''", "'")), position))
        elif group == _QUOTED_NAME:
            append(_quoted_name(lexeme, text, position))
        elif group == _BAD:
            raise _bad(text, position)
        else:
            append(_number(group, lexeme, text, position))
    append((END, None, len(text)))
    return tokens


def checked_text(text: str) -> None:
    """Refuse a text that is too long, or that could not be sent as UTF-8."""
    if len(text) > SELECTOR_CHARS_MAX:
        problem = f"selector has {len(text):,} characters, over the limit of {SELECTOR_CHARS_MAX:,}"
        raise SelectorTooLargeError(problem, text, SELECTOR_CHARS_MAX)
    if not text.isascii() and (match := _SURROGATE.search(text)):
        raise SelectorError(f"expected a character, found the lone surrogate U+{ord(match[0]):X}", text, match.start())


def checked_name(name: str, text: str, position: int) -> str:
    """Returns the name of an attribute if its length is allowed in a message."""
    if not name:
        raise SelectorError("expected a name between the quotes, found nothing", text, position)
    if len(name) > NAME_CHARS_MAX:
        problem = f"attribute name has {len(name):,} characters, over the limit of {NAME_CHARS_MAX:,}"
        raise SelectorTooLargeError(problem, text, position)
    return name


def small_integer(digits: str) -> int | None:
    """The value of decimal digits, or None if it is out of range even for a negative integer."""
    # Check the length first: Python refuses to convert thousands of digits to save time, and so do we.
    significant = digits.lstrip("0")
    if len(significant) > len(str(INTEGER_MAX)):
        return None
    value = int(significant or "0")
    return value if value <= INTEGER_MAX + 1 else None


def finite(lexeme: str, text: str, position: int) -> float:
    """The value of a number with a fraction or an exponent, which must not overflow."""
    value = float(lexeme)
    if math.isinf(value):
        raise SelectorError(f"expected a finite number, found {_shortened(lexeme)}", text, position)
    return value


def out_of_range(lexeme: str, text: str, position: int) -> SelectorError:
    """The error for an integer that 64 bits cannot hold."""
    return SelectorError(f"expected an integer of 64 bits, found {_shortened(lexeme)}", text, position)


def describe(text: str, position: int) -> str:
    """The token at the position, for the end of "expected ..., found ..."."""
    match = _TOKEN.match(text, position)
    assert match is not None
    if match.lastindex is None:
        return "the end"
    lexeme = _shortened(match[match.lastindex])
    if match.lastindex == _STRING:
        return f"the string {lexeme}"
    if match.lastindex == _QUOTED_NAME:
        return f"the name {lexeme}"
    return f"'{lexeme}'"


def _word(word: str, text: str, position: int) -> Token:
    keyword = word.upper()
    # Some letters outside ASCII have capitals inside it, such as the dotless i: they do not make keywords.
    if keyword in _KEYWORDS and word.isascii():
        return (keyword, _KEYWORDS[keyword], position)
    if "." in word:
        _check_dots(word, text, position)
    if not (word.isascii() or word[0].isalpha() or word[0] in "_$"):
        raise SelectorError(f"expected a value or attribute, found '{word[0]}'", text, position)
    if len(word) > NAME_CHARS_MAX:
        checked_name(word, text, position)
    return (NAME, Attribute(word), position)


def _check_dots(word: str, text: str, position: int) -> None:
    after = word.find("..") + 1 or (len(word) if word.endswith(".") else 0)
    if after:
        found = describe(text, position + after) if after == len(word) else "'.'"
        raise SelectorError(f"expected the rest of a name after '.', found {found}", text, position + after)


def _quoted_name(lexeme: str, text: str, position: int) -> Token:
    name = lexeme[1:-1].replace('""', '"')
    return (NAME, Attribute(checked_name(name, text, position)), position)


def _number(group: int, lexeme: str, text: str, position: int) -> Token:
    if group == _APPROXIMATE:
        return (NUMBER, Literal(finite(lexeme.rstrip("dDfF"), text, position)), position)
    digits = lexeme.rstrip("lL")
    value = small_integer(digits) if group == _EXACT else int(digits, 16)
    if value is None or value > INTEGER_MAX + 1:
        raise out_of_range(lexeme, text, position)
    if value > INTEGER_MAX:
        return (TOO_BIG, None, position)
    return (NUMBER, Literal(value), position)


def _bad(text: str, position: int) -> SelectorError:
    char = text[position]
    if char == "'":
        return SelectorError("expected a closing ' for this string, found the end", text, position)
    if char == '"':
        return SelectorError('expected a closing " for this name, found the end', text, position)
    match = _RUN.match(text, position)
    run = match[0] if match else ""
    if (char.isascii() and char.isdigit()) or (char == "." and len(run) > 1):
        return SelectorError(f"expected a number, found '{_shortened(run)}'", text, position)
    shown = f"'{char}'" if char.isprintable() else f"U+{ord(char):04X}"
    return SelectorError(f"expected a value, attribute or operator, found {shown}", text, position)


def _shortened(lexeme: str) -> str:
    visible = "".join(char if char.isprintable() else " " for char in lexeme[:_DESCRIBED_CHARS_MAX])
    return visible if len(lexeme) <= _DESCRIBED_CHARS_MAX else f"{visible}..."
