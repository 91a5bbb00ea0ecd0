"""Matches text against LIKE patterns, in time that no pattern can blow up (SQL-92 section 8.5).

The pattern is cut at each ``%`` into segments. The first and the last segment have fixed places; each one between is
taken at the first place where it fits, which is never worse than a later place, so nothing is ever tried twice: a
match costs at most the length of the text times the length of the pattern, and where that would be a loop in Python,
bits of long integers do the inner one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, TypeAlias

__all__ = ["LikePattern", "Wildcard"]

_ESCAPE: Final = "\\"
_PIECES_TRIED_MAX: Final = 8
"""Literals between ``_`` up to which trying them place by place beats counting in bits."""


class Wildcard(enum.Enum):
    """What stands for other text in a pattern."""

    ONE = "_"
    ANY = "%"


_Piece: TypeAlias = tuple[int, str]
"""A literal and how far into its segment it starts."""


@dataclass(slots=True, frozen=True)
class _Segment:
    """What stands between two ``%``: literals at fixed distances."""

    chars: int
    pieces: tuple[_Piece, ...]

    def fits(self, text: str, at: int) -> bool:
        return all(text.startswith(literal, at + offset) for offset, literal in self.pieces)

    def find(self, text: str, start: int, end: int) -> int:
        """The first place of the segment within the bounds, or -1."""
        # Segments that are searched for start with a literal: see _with_canonical_wildcards.
        first = self.pieces[0][1]
        last_start = end - self.chars
        at = text.find(first, start, end)
        if len(self.pieces) == 1:
            return at if at <= last_start else -1
        if len(self.pieces) > _PIECES_TRIED_MAX:
            return self._find_bitwise(text, start, end)
        while 0 <= at <= last_start:
            if self.fits(text, at):
                return at
            at = text.find(first, at + 1, end)
        return -1

    def _find_bitwise(self, text: str, start: int, end: int) -> int:
        """The same with a bit for each character of the segment: set if the text so far ends in what leads there."""
        masks: dict[str, int] = {}
        wild = (1 << self.chars) - 1
        for offset, literal in self.pieces:
            wild ^= ((1 << len(literal)) - 1) << offset
        # Made anew for each search: kept, they could take hundreds of times the memory of the pattern.
        for offset, literal in self.pieces:
            for place, char in enumerate(literal, offset):
                masks[char] = masks.get(char, wild) | 1 << place
        state, complete = 0, 1 << (self.chars - 1)
        for at in range(start, end):
            state = (state << 1 | 1) & masks.get(text[at], wild)
            if state >= complete:
                return at + 1 - self.chars
        return -1


@dataclass(slots=True, frozen=True)
class LikePattern:
    """A pattern as literals and wildcards; patterns that match the same texts are equal."""

    tokens: tuple[str | Wildcard, ...]
    """Never two literals in a row, and ``ANY`` only once and last in a row of wildcards."""
    _segments: tuple[_Segment, ...] = field(init=False, repr=False, compare=False)
    _chars_min: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare for matching."""
        object.__setattr__(self, "tokens", _with_canonical_wildcards(self.tokens))
        object.__setattr__(self, "_segments", _segments(self.tokens))
        object.__setattr__(self, "_chars_min", sum(segment.chars for segment in self._segments))

    @classmethod
    def parse(cls, pattern: str, escape: str | None = None) -> LikePattern:
        """Read a pattern as written; ``ValueError`` if the escape character escapes nothing."""
        if escape is not None and len(escape) != 1:
            raise ValueError(f"expected one escape character, found {len(escape)}")
        tokens: list[str | Wildcard] = []
        chars = iter(pattern)
        for char in chars:
            if char == escape:
                tokens.append(_escaped(next(chars, None), escape))
            elif char == "%":
                tokens.append(Wildcard.ANY)
            else:
                tokens.append(Wildcard.ONE if char == "_" else char)
        return cls(tuple(tokens))

    @classmethod
    def of_prefix(cls, prefix: str) -> LikePattern:
        """The pattern of the texts that start so."""
        return cls((prefix, Wildcard.ANY))

    def matches(self, text: str) -> bool:
        """Whether the whole text fits the pattern."""
        spare = len(text) - self._chars_min
        first = self._segments[0]
        if len(self._segments) == 1:
            return spare == 0 and first.fits(text, 0)
        last = self._segments[-1]
        end = len(text) - last.chars
        if spare < 0 or not first.fits(text, 0) or not last.fits(text, end):
            return False
        at = first.chars
        for segment in self._segments[1:-1]:
            at = segment.find(text, at, end)
            if at < 0:
                return False
            at += segment.chars
        return True

    @property
    def literal(self) -> str | None:
        """The only text that matches, or None if there are wildcards."""
        if not self.tokens:
            return ""
        first = self.tokens[0]
        return first if len(self.tokens) == 1 and isinstance(first, str) else None

    @property
    def prefix(self) -> str:
        """What each matching text starts with: the literal before the first wildcard."""
        first = self.tokens[0] if self.tokens else ""
        return first if isinstance(first, str) else ""

    @property
    def is_prefix(self) -> bool:
        """Whether every text that starts with ``prefix`` matches, and no other."""
        return self.tokens[bool(self.prefix) :] == (Wildcard.ANY,)

    def text(self) -> tuple[str, str | None]:
        """The pattern as it would be written, and the escape character if one is needed.

        >>> LikePattern.parse("100!%%", "!").text()
        ('100\\\\%%', '\\\\')
        """
        literals = "".join(token for token in self.tokens if isinstance(token, str))
        # Also for the escape character itself: no two patterns are then written alike but for the escape.
        escape = _ESCAPE if any(char in literals for char in ("%", "_", _ESCAPE)) else None
        return "".join(_written(token, escape) for token in self.tokens), escape


def _escaped(char: str | None, escape: str) -> str:
    if char is None:
        raise ValueError(f"expected %, _ or {escape} after the escape character, found the end of the pattern")
    if char not in ("%", "_", escape):
        raise ValueError(f"expected %, _ or {escape} after the escape character, found {char!r}")
    return char


def _with_canonical_wildcards(tokens: tuple[str | Wildcard, ...]) -> tuple[str | Wildcard, ...]:
    """Literals joined, and in each row of wildcards at most one ``ANY``, at its end: ``%_%`` is ``_%``."""
    canonical: list[str | Wildcard] = []
    for is_literal, row in groupby(filter(None, tokens), lambda token: isinstance(token, str)):
        if is_literal:
            canonical.append("".join(str(literal) for literal in row))
        else:
            wildcards = tuple(row)
            canonical += (Wildcard.ONE,) * wildcards.count(Wildcard.ONE)
            canonical += (Wildcard.ANY,) if Wildcard.ANY in wildcards else ()
    return tuple(canonical)


def _segments(tokens: tuple[str | Wildcard, ...]) -> tuple[_Segment, ...]:
    segments: list[_Segment] = []
    chars, pieces = 0, list[_Piece]()
    for token in (*tokens, Wildcard.ANY):
        if token is Wildcard.ANY:
            segments.append(_Segment(chars, tuple(pieces)))
            chars, pieces = 0, []
        elif token is Wildcard.ONE:
            chars += 1
        else:
            assert isinstance(token, str)
            pieces.append((chars, token))
            chars += len(token)
    return tuple(segments)


def _written(token: str | Wildcard, escape: str | None) -> str:
    if isinstance(token, Wildcard):
        return token.value
    if escape is None:
        return token
    return token.replace(escape, escape * 2).replace("%", f"{escape}%").replace("_", f"{escape}_")
