"""Selectors as disjunctions of conjunctions, the form that can be indexed and compared ([PADRES] section 2).

Three-valued logic survives the transformation: negations are pushed down to the predicates, where each has an
opposite that is unknown exactly when it is (``NOT a > 5`` is ``a <= 5`` for every value, even a missing one); after
that "is true" of the whole depends only on "is true" of its predicates.

A predicate on more than one attribute (``a + b > 5``) stays as a residual test. So does a part whose expansion
would exceed ``SELECTOR_CONJUNCTIONS_MAX``: it costs an evaluation, but never an explosion.

A residual costs what its parts cost. Most messages have none of the attributes that an unusual condition refers to, so
we find the attributes it needs: it is true of no message that has none of them, and a look at the names is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, TypeAlias

from penstock.model.limits import SELECTOR_CHARS_MAX, SELECTOR_CONJUNCTIONS_MAX
from penstock.model.values import Attributes
from penstock.selectors import ast
from penstock.selectors.constraint import Constraint, Range, intersect
from penstock.selectors.evaluate import Evaluation, compile_condition
from penstock.selectors.leaves import FALSE, TRUE, fold, leaf_of, opposite
from penstock.selectors.like import LikePattern
from penstock.selectors.printer import condition_text, constraint_texts

__all__ = ["Conjunction", "Residual", "needs_of", "normalise"]


class Residual:
    """A condition that is evaluated as it stands; two are equal if their texts are."""

    __slots__ = ("_needs", "_test", "condition", "text")

    def __init__(self, condition: ast.Condition) -> None:
        self.condition: Final = condition
        self.text: Final = condition_text(condition)
        self._test: Evaluation | None = None
        self._needs: Final = needs_of(condition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Residual) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type[Residual], tuple[ast.Condition]]:
        return (Residual, (self.condition,))

    def passes(self, attributes: Attributes) -> bool:
        """Whether the condition is true of these attributes."""
        if self._needs is not None and self._needs.isdisjoint(attributes):
            return False
        if self._test is None:
            self._test = compile_condition(self.condition)
        return self._test(attributes) is True


class Conjunction:
    """Constraints on attributes, and residual tests, that must all hold; immutable, equal by meaning."""

    __slots__ = ("_hash", "constraints", "residuals")

    def __init__(self, constraints: Mapping[str, Constraint], residuals: tuple[Residual, ...] = ()) -> None:
        self.constraints: Final = {name: constraints[name] for name in sorted(constraints)}
        if len(residuals) > 1:
            residuals = tuple(sorted(set(residuals), key=lambda each: each.text))
        self.residuals: Final = residuals
        self._hash = hash((tuple(self.constraints.items()), residuals))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Conjunction)
            and self._hash == other._hash
            and self.constraints == other.constraints
            and self.residuals == other.residuals
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Conjunction], tuple[object, ...]]:
        # The hash of a text differs between processes: it must be recomputed, not pickled.
        return (Conjunction, (self.constraints, self.residuals))

    def __str__(self) -> str:
        texts = [text for name, each in self.constraints.items() for text in constraint_texts(name, each)]
        texts += [
            f"({each.text})" if isinstance(each.condition, ast.Or | ast.And) else each.text for each in self.residuals
        ]
        return " AND ".join(texts) or "TRUE"

    def __repr__(self) -> str:
        return f"Conjunction({str(self)!r})"

    def names(self) -> set[str]:
        """The attributes it refers to."""
        return set(self.constraints).union(*(_names(each.condition) for each in self.residuals))

    def searches(self) -> set[tuple[str, LikePattern]]:
        """The patterns that are searched for within an attribute's text."""
        likes = [
            (name, pattern)
            for name, each in self.constraints.items()
            if isinstance(each, Range)
            for pattern in each.patterns + each.unlike
        ]
        likes += [like for each in self.residuals for like in _likes(each.condition)]
        return {(name, pattern) for name, pattern in likes if pattern.is_searched_for}

    def matches(self, attributes: Attributes) -> bool:
        """Whether the conjunction is true of these attributes."""
        get = attributes.get
        for name, constraint in self.constraints.items():
            if not constraint.contains(get(name)):
                return False
        return all(each.passes(attributes) for each in self.residuals)

    def covers(self, other: Conjunction) -> bool:
        """Whether everything that matches the other conjunction matches this one too; True is never wrong."""
        theirs = other.constraints
        for name, constraint in self.constraints.items():
            their = theirs.get(name)
            if their is None or not their.implies(constraint):
                return False
        return all(residual in other.residuals for residual in self.residuals)


_Part: TypeAlias = tuple[dict[str, Constraint], tuple[Residual, ...]]
"""A conjunction in the making."""

_EVERYTHING: Final[_Part] = ({}, ())
_CONSTRAINTS_MAX: Final = SELECTOR_CHARS_MAX // 8
"""The most constraints in all conjunctions of a selector: with more, the text would be too long anyway."""


def normalise(condition: ast.Condition) -> tuple[Conjunction, ...]:
    """The conjunctions of a condition, none of which covers another; empty if it can never be true."""
    pushed = _push_down(condition, negated=False)
    try:
        conjunctions = _maximal(_expand(pushed, None))
    except _ExplosionError:
        # Remove repetitions first: else the canonical text, which has none, might not explode.
        pushed = _without_repetition(pushed)
        conjunctions = _maximal(_expand(pushed, SELECTOR_CONJUNCTIONS_MAX))
    # An expansion repeats parts of the text; beyond the length limit it would no longer be a selector.
    if len(conjunctions) > 1 and sum(len(str(each)) + 4 for each in conjunctions) > SELECTOR_CHARS_MAX:
        conjunctions = _maximal(_expand(_without_repetition(pushed), 1))
    return conjunctions


def needs_of(condition: ast.Condition, *, negated: bool = False) -> frozenset[str] | None:
    """Attributes, one of which a message must have to make the condition (or its opposite) true; None for no need."""
    match condition:
        case ast.Constant(value):
            return None if value is not negated else frozenset()
        case ast.Not(operand):
            return needs_of(operand, negated=not negated)
        case ast.IsNull(attribute):
            return frozenset((attribute.name,)) if negated else None
        case ast.InList(attribute) | ast.Like(attribute):
            return frozenset((attribute.name,))
        case ast.Comparison(_, left, right):
            # A comparison with a missing attribute is unknown, and so is its opposite.
            names = _names_in_term(left) or _names_in_term(right)
            return frozenset(names[:1]) if names else None
        case ast.And(operands) | ast.Or(operands):
            needs = [needs_of(each, negated=negated) for each in operands]
            return _needs_of_all(needs) if isinstance(condition, ast.And) is not negated else _needs_of_any(needs)


class _ExplosionError(Exception):
    """An expansion exceeds the limit."""


def _maximal(parts: list[_Part]) -> tuple[Conjunction, ...]:
    if len(parts) == 1:
        return (Conjunction(*parts[0]),)
    distinct = sorted({Conjunction(*part) for part in parts}, key=str)
    # Of two that cover each other (equal in meaning but not in form) the first in order stays.
    return tuple(
        each
        for place, each in enumerate(distinct)
        if not any(
            other.covers(each) and (rank < place or not each.covers(other))
            for rank, other in enumerate(distinct)
            if rank != place
        )
    )


def _push_down(condition: ast.Condition, *, negated: bool) -> ast.Condition:
    """The same condition with negations at the predicates only and nested ANDs and ORs flattened."""
    match condition:
        case ast.Not(operand):
            return _push_down(operand, negated=not negated)
        case ast.And(operands) | ast.Or(operands):
            joined = isinstance(condition, ast.And) != negated
            return _join([_push_down(each, negated=negated) for each in operands], as_and=joined)
        case _:
            return fold(opposite(condition) if negated else condition)


def _join(operands: list[ast.Condition], *, as_and: bool) -> ast.And | ast.Or:
    kind: type[ast.And | ast.Or] = ast.And if as_and else ast.Or
    flat: list[ast.Condition] = []
    for each in operands:
        flat.extend(each.operands if isinstance(each, kind) else (each,))
    return kind(tuple(flat))


def _without_repetition(condition: ast.Condition) -> ast.Condition:
    if not isinstance(condition, ast.And | ast.Or):
        return condition
    # Joined again: an OR of two equal ANDs becomes an AND, which merges into the AND around it.
    joined = _join([_without_repetition(each) for each in condition.operands], as_and=isinstance(condition, ast.And))
    distinct = tuple({condition_text(each): each for each in joined.operands}.values())
    return distinct[0] if len(distinct) == 1 else type(condition)(distinct)


def _expand(condition: ast.Condition, limit: int | None) -> list[_Part]:
    """The conjunctions of a condition. Too many become residuals, or an ``_ExplosionError`` if no limit is given."""
    match condition:
        case ast.And(operands):
            return _expand_and(operands, limit)
        case ast.Or(operands):
            parts = [part for each in operands for part in _expand(each, limit)]
            return [_residual(condition)] if _too_many(len(parts), limit) else parts
        case _:
            return _expand_leaf(condition)


def _expand_and(operands: tuple[ast.Condition, ...], limit: int | None) -> list[_Part]:
    parts = [_expand(each, limit) for each in operands]
    if not all(parts):
        return []
    # What all products share is joined once, not once for each of them.
    shared = _all_of([part[0] for part in parts if len(part) == 1])
    if shared is None:
        return []
    count = prod([len(part) for part in parts])
    if _too_many(count, limit) or _too_long(count, shared, limit):
        # All alternatives stay residual, not just those that overflow: so parsing the canonical text leads to
        # the same decision.
        residuals = [_residual(each) for each, part in zip(operands, parts, strict=True) if len(part) > 1]
        joined = _all_of([shared, *residuals])
        return [] if joined is None else [joined]
    products = [shared]
    for part in parts:
        if len(part) > 1:
            combined = [_both(product, each) for product in products for each in part]
            products = [each for each in combined if each is not None]
    return products


def _too_many(count: int, limit: int | None) -> bool:
    if limit is None and count > SELECTOR_CONJUNCTIONS_MAX:
        raise _ExplosionError
    return limit is not None and count > limit


def _too_long(count: int, shared: _Part, limit: int | None) -> bool:
    """Whether repeating the shared constraints in every product makes them too long for the text of a selector."""
    too_long = count > 1 and count * len(shared[0]) > _CONSTRAINTS_MAX
    if too_long and limit is None:
        raise _ExplosionError
    return too_long


def _all_of(parts: list[_Part]) -> _Part | None:
    """The conjunction of all parts, or None if nothing can satisfy it; not quadratic in their number."""
    if len(parts) <= 1:
        return parts[0] if parts else _EVERYTHING
    by_name: dict[str, list[Constraint]] = {}
    for constraints, _ in parts:
        for name, constraint in constraints.items():
            by_name.setdefault(name, []).append(constraint)
    merged: dict[str, Constraint] = {}
    for name, each in by_name.items():
        common = intersect(*each)
        if common is None:
            return None
        merged[name] = common
    return merged, tuple(residual for _, residuals in parts for residual in residuals)


def _both(first: _Part, second: _Part) -> _Part | None:
    """The conjunction of two parts, or None if nothing can satisfy it."""
    merged = dict(first[0])
    for name, constraint in second[0].items():
        mine = merged.get(name)
        common = constraint if mine is None else intersect(mine, constraint)
        if common is None:
            return None
        merged[name] = common
    return merged, first[1] + second[1]


def _expand_leaf(condition: ast.Condition) -> list[_Part]:
    leaf = leaf_of(condition)
    if isinstance(leaf, tuple):
        return [({leaf[0]: leaf[1]}, ())]
    if leaf == FALSE:
        return []
    if leaf == TRUE:
        return [_EVERYTHING]
    return [_residual(leaf)]


def _residual(condition: ast.Condition) -> _Part:
    return {}, (Residual(condition),)


def _names(node: ast.Condition | ast.Term) -> set[str]:
    match node:
        case ast.Attribute(name):
            return {name}
        case ast.And(operands) | ast.Or(operands):
            return set().union(*map(_names, operands))
        case ast.Comparison(_, left, right) | ast.Arithmetic(_, left, right):
            return _names(left) | _names(right)
        case ast.Not(operand) | ast.Negative(operand):
            return _names(operand)
        case ast.InList(attribute) | ast.Like(attribute) | ast.IsNull(attribute):
            return {attribute.name}
        case _:
            return set()


def _likes(condition: ast.Condition) -> list[tuple[str, LikePattern]]:
    match condition:
        case ast.And(operands) | ast.Or(operands):
            return [like for each in operands for like in _likes(each)]
        case ast.Not(operand):
            return _likes(operand)
        case ast.Like(attribute, pattern, escape):
            return [(attribute.name, LikePattern.parse(pattern, escape))]
        case _:
            return []


def _needs_of_all(needs: list[frozenset[str] | None]) -> frozenset[str] | None:
    """The needs of conditions that must all be true: the shortest list that one of them needs."""
    return min((each for each in needs if each is not None), key=len, default=None)


def _needs_of_any(needs: list[frozenset[str] | None]) -> frozenset[str] | None:
    """The needs of conditions of which one must be true: everything that any of them needs."""
    needed: set[str] = set()
    for each in needs:
        if each is None:
            return None
        needed |= each
    return frozenset(needed)


def _names_in_term(term: ast.Term) -> list[str]:
    match term:
        case ast.Attribute(name):
            return [name]
        case ast.Negative(operand):
            return _names_in_term(operand)
        case ast.Arithmetic(_, left, right):
            return _names_in_term(left) or _names_in_term(right)
        case _:
            return []
