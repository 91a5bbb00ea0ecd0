"""Matches text against LIKE patterns, in time that no pattern can blow up (SQL-92 section 8.5).

The pattern is cut at each ``%`` into segments. The first and the last segment have fixed places; each one between
takes the first place where it fits, which is never worse than a later one, so nothing is ever tried twice. A
segment without ``_`` is found by ``str.find``. One with ``_`` is tried at a few places, then at all places at once: an
integer has a bit for each character of the text, and each literal character of the segment costs one shift of it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Final, TypeAlias

from penstock.model.limits import SELECTOR_GAP_CHARS_MAX

__all__ = ["LikePattern", "Wildcard"]

_ESCAPE: Final = "\\"
_PLACES_TRIED_MAX: Final = 16
"""Places up to which trying a segment one by one beats preparing the whole text."""
_TEXTS_KEPT_MAX: Final = 4
"""Prepared texts to keep: the patterns of many subscriptions meet the same message one after the other."""
_CHARS_KEPT_MAX: Final = 128
"""Characters of a prepared text to keep; each takes an eighth of the text's length."""


class _Places:
    """The places of each character in a text, as an integer whose highest bit is the text's first character."""

    def __init__(self, text: str) -> None:
        self.chars: Final = len(text)
        if text.isascii():
            self._planes = [text.encode()]
        else:
            data = text.encode("utf-32-le", "surrogatepass")
            self._planes = [data[plane::4] for plane in range(3)]
        self._found: dict[str, int] = {}

    def of(self, char: str) -> int:
        """The bits of this character."""
        bits = self._found.get(char)
        if bits is None:
            if len(self._found) >= _CHARS_KEPT_MAX:
                self._found.clear()
            bits = self._found[char] = self._find(char)
        return bits

    def _find(self, char: str) -> int:
        code = char.encode("utf-32-le", "surrogatepass")
        if any(code[len(self._planes) :]):
            return 0
        bits = -1
        for plane, byte in zip(self._planes, code, strict=False):
            bits &= int(plane.translate(b"0" * byte + b"1" + b"0" * (255 - byte)), 2)
        return bits


@lru_cache(maxsize=_TEXTS_KEPT_MAX)
def _places(text: str) -> _Places:
    return _Places(text)


class Wildcard(enum.Enum):
    """The wildcards of a pattern."""

    ONE = "_"
    ANY = "%"


_Piece: TypeAlias = tuple[int, str]
"""A literal and how far into its segment it starts."""


@dataclass(slots=True, frozen=True)
class _Segment:
    """The part of a pattern between two ``%``: literals at fixed offsets."""

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
        for _ in range(_PLACES_TRIED_MAX):
            if not 0 <= at <= last_start:
                return -1
            if self.fits(text, at):
                return at
            at = text.find(first, at + 1, end)
        return self._find_everywhere(text, at, last_start) if 0 <= at <= last_start else -1

    def _find_everywhere(self, text: str, start: int, last_start: int) -> int:
        """Like ``find``, with a bit for each place that stays set as long as the segment may begin there."""
        places = _places(text)
        fitting = (1 << (places.chars - start)) - 1
        for offset, literal in self.pieces:
            for distance, char in enumerate(literal, offset):
                fitting &= places.of(char) << distance
                if not fitting:
                    return -1
        at = places.chars - fitting.bit_length()
        return at if at <= last_start else -1


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
        """The pattern of the texts that start with a prefix."""
        return cls((prefix, Wildcard.ANY))

    def check_cost(self) -> None:
        """Raises ``ValueError`` if a segment between two ``%`` has so much text around ``_`` that searches are slow."""
        for segment in self._segments[1:-1]:
            chars = sum(len(literal) for _, literal in segment.pieces)
            if len(segment.pieces) > 1 and chars > SELECTOR_GAP_CHARS_MAX:
                raise ValueError(
                    f"expected at most {SELECTOR_GAP_CHARS_MAX} characters around the _ between two %, found {chars:,}"
                )

    @property
    def is_searched_for(self) -> bool:
        """Whether a match has to search the text, not just look at its ends."""
        return len(self._segments) > 2

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
        """The start of each matching text: the literal before the first wildcard."""
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
        # Also for the escape character itself: then no two patterns differ only in their escape.
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
