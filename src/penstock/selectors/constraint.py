"""Constraints on one attribute of a conjunction: sets of values that can be intersected and compared.

All predicates of a conjunction on the same attribute are merged into one constraint, so that ``a > 1 AND a > 3``
and ``a > 3`` are the same thing, and "does A cover B" (the partial order behind [PADRES] section 2's poset) is decided
attribute by attribute:

- ``Null``: the attribute is absent or null.
- ``Exists``: it is present, with any value.
- ``Values``: it is one of finitely many values.
- ``Range``: it is a number, or a text, within bounds, except for some values, and for texts within patterns.

A prefix (``LIKE 'AB%'``) is the range of texts from ``AB`` up to, but not including, ``AC``: so prefixes and text
comparisons need no rules for each other. NaN satisfies ``Exists`` alone: it compares as unknown with everything.
Numbers and texts are treated as dense: that nothing lies between 'a' and 'a\\0' is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from penstock.model.values import AttributeValue, Scalar
from penstock.selectors.like import LikePattern

__all__ = ["Constraint", "Exists", "Key", "Null", "Range", "Values", "intersect", "key_of", "prefix_end", "value_of"]

Key: TypeAlias = str | int | float | tuple[bool]
"""A value as a dictionary key. Python's True equals 1, a selector's does not: booleans are wrapped."""

_BOOLEAN_KEYS: Final[dict[bool, tuple[bool]]] = {False: (False,), True: (True,)}
_CODE_POINT_MAX = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def key_of(value: Scalar) -> Key:
    """The key of a value; two keys are equal exactly if ``=`` finds their values equal."""
    return _BOOLEAN_KEYS[value] if value.__class__ is bool else value


def value_of(key: Key) -> Scalar:
    """The value behind a key."""
    return key[0] if isinstance(key, tuple) else key


@dataclass(slots=True, frozen=True)
class Null:
    """The attribute is absent or null."""

    def contains(self, value: AttributeValue) -> bool:
        """Whether the value satisfies the constraint."""
        return value is None

    def implies(self, other: Constraint) -> bool:
        """Whether every value of this constraint satisfies the other one."""
        return isinstance(other, Null)


@dataclass(slots=True, frozen=True)
class Exists:
    """The attribute is present, whatever its value."""

    def contains(self, value: AttributeValue) -> bool:
        """Whether the value satisfies the constraint."""
        return value is not None

    def implies(self, other: Constraint) -> bool:
        """Whether every value of this constraint satisfies the other one."""
        return isinstance(other, Exists)


class Values(NamedTuple):
    """The attribute is one of these values (at least one, as keys, in canonical order)."""

    keys: tuple[Key, ...]

    @staticmethod
    def of(keys: Iterable[Key]) -> Values | None:
        """The constraint for these keys, or None if there are no keys."""
        unique = sorted({_tidy_number(key) for key in keys}, key=_rank)
        return Values(tuple(unique)) if unique else None

    def contains(self, value: AttributeValue) -> bool:
        """Whether the value satisfies the constraint."""
        # A selector cannot contain NaN, so `in`, which checks identity first, cannot be fooled.
        return value is not None and key_of(value) in self.keys

    def implies(self, other: Constraint) -> bool:
        """Whether every value of this constraint satisfies the other one."""
        return all(other.contains(value_of(key)) for key in self.keys)


class Range(NamedTuple):
    """The attribute is a number or a text between bounds; a bound of None is no bound.

    Make ranges with ``Range.of``, which gives equal sets of values equal forms.
    """

    text: bool
    low: str | int | float | None = None
    low_open: bool = False
    high: str | int | float | None = None
    high_open: bool = False
    excluded: tuple[str | int | float, ...] = ()
    patterns: tuple[LikePattern, ...] = ()
    unlike: tuple[LikePattern, ...] = ()

    @property
    def simple(self) -> bool:
        """Whether the bounds alone decide."""
        return not (self.excluded or self.patterns or self.unlike)

    @staticmethod
    def of(
        *,
        text: bool,
        low: str | int | float | None = None,
        low_open: bool = False,
        high: str | int | float | None = None,
        high_open: bool = False,
        excluded: Iterable[str | int | float] = (),
        patterns: Iterable[LikePattern] = (),
        unlike: Iterable[LikePattern] = (),
    ) -> Range | Values | None:
        """The canonical constraint for these bounds: a range, a single value, or nothing at all."""
        if text and low is None:
            low, low_open = "", False
        bounds = Range(text, _tidy(low), low_open, _tidy(high), high_open)
        if excluded or patterns or unlike:
            return bounds.with_tests(set(excluded), set(patterns), set(unlike))
        return bounds.unless_empty()

    def with_tests(
        self, excluded: set[str | int | float], patterns: set[LikePattern], unlike: set[LikePattern]
    ) -> Range | Values | None:
        """These bounds with additional tests, in canonical form."""
        prefixes = _prefixes(unlike)
        trimmed = self._less_prefixes(set(prefixes))
        if trimmed is None:
            return None
        unlike = {each for each in unlike if trimmed.meets_prefix(each.prefix) and not _is_implied(each, prefixes)}
        out = {
            _tidy_bound(value)
            for value in excluded
            if trimmed.contains(value) and not (self.text and any(each.matches(str(value)) for each in unlike))
        }
        return trimmed._replace(
            # An excluded end is an open end: `a >= 5 AND a <> 5` is `a > 5`.
            low_open=trimmed.low_open or trimmed.low in out,
            high_open=trimmed.high_open or trimmed.high in out,
            excluded=tuple(sorted(out - {trimmed.low, trimmed.high})),
            patterns=tuple(sorted(patterns, key=_pattern_rank)),
            unlike=tuple(sorted(unlike, key=_pattern_rank)),
        ).unless_empty()

    def _less_prefixes(self, prefixes: set[str]) -> Range | None:
        """The bounds with forbidden prefixes cut off at either end: from 'a' on but not LIKE 'a%' is from 'b' on."""
        low, low_open, high, high_open = self.low, self.low_open, self.high, self.high_open
        for prefix in sorted(prefixes):
            end = prefix_end(prefix)
            if isinstance(low, str) and low >= prefix and (end is None or low < end):
                if end is None:
                    return None
                low, low_open = end, False
        for prefix in sorted(prefixes, reverse=True):
            end = prefix_end(prefix)
            reaches = high is None or _less(prefix, high) or (high == prefix and not high_open)
            within = end is None or (high is not None and (_less(high, end) or (high == end and high_open)))
            if reaches and within:
                high, high_open = prefix, True
        return self._replace(low=low, low_open=low_open, high=high, high_open=high_open)

    def unless_empty(self) -> Range | Values | None:
        """The range itself, or its single value, or None if it is empty."""
        if self.low is None or self.high is None or _less(self.low, self.high):
            return self
        if self.low == self.high and self.contains(self.low):
            return Values((self.low,))
        return None

    @property
    def prefix(self) -> str | None:
        """The prefix, if the bounds ask for exactly the texts that start with one."""
        if not self.text or self.low_open or not isinstance(self.low, str):
            return None
        end = prefix_end(self.low)
        return self.low if self.high == end and (self.high_open or end is None) else None

    def within_bounds(self, value: str | int | float) -> bool:
        """Whether a value of the right type lies between the bounds."""
        low, high = self.low, self.high
        if low is not None and not (_less(low, value) or (low == value and not self.low_open)):
            return False
        return high is None or _less(value, high) or (high == value and not self.high_open)

    def contains(self, value: AttributeValue) -> bool:
        """Whether the value satisfies the constraint."""
        kind = value.__class__
        if (kind is not str) if self.text else (kind is not int and kind is not float):
            return False
        assert value is not None
        # NaN, unequal to itself, is within no bounds, even where there are none.
        if value != value or not self.within_bounds(value):  # noqa: PLR0124
            return False
        return self.simple or self._passes_tests(value)

    def _passes_tests(self, value: Scalar) -> bool:
        if value in self.excluded:
            return False
        if not self.text:
            return True
        assert isinstance(value, str)
        return all(each.matches(value) for each in self.patterns) and not any(
            each.matches(value) for each in self.unlike
        )

    def implies(self, other: Constraint) -> bool:
        """Whether every value of this constraint satisfies the other one (exact, except for inner wildcards)."""
        if isinstance(other, Exists):
            return True
        if not isinstance(other, Range) or other.text != self.text or not self._lies_within(other):
            return False
        if any(self.contains(value) for value in other.excluded):
            return False
        if not all(pattern in self.patterns for pattern in other.patterns):
            return False
        if not other.unlike:
            return True
        prefixes = _prefixes(self.unlike)
        return all(
            pattern in self.unlike or not self.meets_prefix(pattern.prefix) or _is_implied(pattern, prefixes)
            for pattern in other.unlike
        )

    def _lies_within(self, other: Range) -> bool:
        if other.low is not None:
            if self.low is None or _less(self.low, other.low):
                return False
            if self.low == other.low and other.low_open and not self.low_open:
                return False
        if other.high is not None:
            if self.high is None or _less(other.high, self.high):
                return False
            return not (self.high == other.high and other.high_open and not self.high_open)
        return True

    def meets_prefix(self, prefix: str) -> bool:
        """Whether some text between the bounds may start with the prefix."""
        end = prefix_end(prefix)
        if self.high is not None and (_less(self.high, prefix) or (self.high == prefix and self.high_open)):
            return False
        return end is None or self.low is None or _less(self.low, end)


Constraint: TypeAlias = Null | Exists | Values | Range


def intersect(first: Constraint, *others: Constraint) -> Constraint | None:
    """The intersection of all constraints, or None if no value can satisfy it."""
    if not others:
        return first
    if len(others) > 1:
        return _intersect_many((first, *others))
    second = others[0]
    if isinstance(first, Null) or isinstance(second, Null):
        return first if first == second else None
    if isinstance(first, Exists):
        return second
    if isinstance(second, Exists):
        return first
    if isinstance(first, Values):
        return Values.of(key for key in first.keys if second.contains(value_of(key)))
    if isinstance(second, Values):
        return Values.of(key for key in second.keys if first.contains(value_of(key)))
    return _overlap((first, second)) if first.text == second.text else None


def _intersect_many(constraints: tuple[Constraint, ...]) -> Constraint | None:
    """Intersects many constraints: ranges in one step, since a step costs as much as everything joined so far."""
    ranges = tuple(each for each in constraints if isinstance(each, Range))
    if len({each.text for each in ranges}) > 1:
        return None
    common: Constraint | None = _overlap(ranges) if ranges else None
    if ranges and common is None:
        return None
    for each in constraints:
        if not isinstance(each, Range):
            common = each if common is None else intersect(common, each)
            if common is None:
                return None
    return common


def prefix_end(prefix: str) -> str | None:
    """The first text after all those that start with the prefix, or None if there is no such text."""
    stem = prefix.rstrip(chr(_CODE_POINT_MAX))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def _overlap(ranges: tuple[Range, ...]) -> Range | Values | None:
    lower = upper = ranges[0]
    for each in ranges[1:]:
        if _starts_later(each, lower):
            lower = each
        if _ends_earlier(each, upper):
            upper = each
    return Range.of(
        text=lower.text,
        low=lower.low,
        low_open=lower.low_open,
        high=upper.high,
        high_open=upper.high_open,
        excluded=[value for each in ranges for value in each.excluded],
        patterns=[pattern for each in ranges for pattern in each.patterns],
        unlike=[pattern for each in ranges for pattern in each.unlike],
    )


def _starts_later(one: Range, other: Range) -> bool:
    if one.low is None or other.low is None:
        return other.low is None
    return _less(other.low, one.low) or (other.low == one.low and one.low_open)


def _ends_earlier(one: Range, other: Range) -> bool:
    if one.high is None or other.high is None:
        return other.high is None
    return _less(one.high, other.high) or (other.high == one.high and one.high_open)


def _less(first: str | int | float, second: str | int | float) -> bool:
    # Both are texts or both are numbers: a range never mixes them, which the type checker cannot see.
    return first < second  # type: ignore[operator]


def _tidy(value: str | int | float | None) -> str | int | float | None:
    return None if value is None else _tidy_bound(value)


def _tidy_bound(value: str | int | float) -> str | int | float:
    # 5.0 and 5 are the same number; one spelling for both, as long as it can be written as an integer literal.
    return int(value) if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**63 else value


def _tidy_number(key: Key) -> Key:
    return key if isinstance(key, tuple) else _tidy_bound(key)


def _prefixes(unlike: Iterable[LikePattern]) -> dict[str, int]:
    """The plain prefixes among patterns, with their lengths, shortest first."""
    return dict(
        sorted(((each.prefix, len(each.prefix)) for each in unlike if each.is_prefix), key=lambda each: each[1])
    )


def _is_implied(pattern: LikePattern, prefixes: dict[str, int]) -> bool:
    """Whether every text like the pattern also starts with one of these prefixes, other than its own."""
    own = pattern.prefix
    # Loop over lengths, of which there are few, not over prefixes.
    return any(
        own[:length] in prefixes and not (pattern.is_prefix and length == len(own))
        for length in dict.fromkeys(prefixes.values())
        if length <= len(own)
    )


def _pattern_rank(pattern: LikePattern) -> str:
    return pattern.text()[0]


def _rank(key: Key) -> tuple[int, str | int | float]:
    if isinstance(key, tuple):
        return (0, key[0])
    return (2, key) if isinstance(key, str) else (1, key)
