"""Plans where a conjunction belongs in the index: which cluster, which group, under which thresholds.

A conjunction is split by what an index can do with each piece:

- *Probes* find the cluster by hashing: equalities, prefixes of a text, and mere presence. A list of values
  (``IN``) puts the conjunction into one cluster per value.
- *Bounds* are thresholds within a cluster. The first one is kept sorted; further ones are columns of numbers that are
  compared in bulk.
- *Tests* are all the rest; conjunctions that share a test share its evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from penstock.model.values import Attributes
from penstock.selectors.constraint import Constraint, Exists, Key, Range, Values, key_of
from penstock.selectors.effort import effort_of
from penstock.selectors.normal_form import Conjunction, Residual
from penstock.selectors.selector import Selector

__all__ = [
    "PRESENT",
    "SPREAD_MAX",
    "Bound",
    "ClusterKey",
    "GroupKey",
    "Plan",
    "Probe",
    "Test",
    "Threshold",
    "effort_in_index",
    "plan_of",
]

SPREAD_MAX: Final = 64
"""The most clusters one conjunction may be put into; lists of values beyond that are tested instead."""

_SMALL_CONSTRAINTS_MAX: Final = 16
_SMALL_VALUES_MAX: Final = 16
_SMALL_CHARS_MAX: Final = 512
"""Conjunctions with more constraints, more values or more text are not kept in caches."""

PRESENT: Final = key_of(value=True)
"""The value that a probe for mere presence reads."""

Probe: TypeAlias = str | tuple[str, int]
"""An attribute whose value is hashed; with a length, only that many characters; with length 0, its presence."""

ClusterKey: TypeAlias = Key | tuple[Key, ...]
"""The value of the probe, or the tuple of them if there are several."""

Threshold: TypeAlias = str | int | float


class Bound(NamedTuple):
    """A comparison of an attribute with a threshold that differs from one conjunction to the next."""

    name: str
    operator: str
    text: bool


class Test:
    """A constraint, or part of one, that the index cannot look up."""

    __slots__ = ("_hash", "constraint", "name")

    def __init__(self, name: str, constraint: Constraint) -> None:
        self.name: Final = name
        self.constraint: Final = constraint
        # Looked up once per message and group; hashing a constraint means hashing all its fields.
        self._hash = hash((name, constraint))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Test) and self.name == other.name and self.constraint == other.constraint
        )

    def __hash__(self) -> int:
        return self._hash

    def passes(self, attributes: Attributes) -> bool:
        """Whether these attributes satisfy the constraint."""
        return self.constraint.contains(attributes.get(self.name))


class GroupKey(NamedTuple):
    """What the members of a group have in common, besides their cluster."""

    bounds: tuple[Bound, ...]
    tests: tuple[Test | Residual, ...]
    spread: bool
    """Whether the members are in several clusters each: then their thresholds alone do not order them."""
    repeated: bool
    """Whether a member may be found twice for one message: its selector has several conjunctions."""

    @property
    def effort(self) -> int:
        """How many operations its tests need for one message (``selectors.effort``)."""
        return sum(1 if isinstance(test, Test) else effort_of(test.condition) for test in self.tests)


class Plan(NamedTuple):
    """The place of one conjunction."""

    probes: tuple[Probe, ...]
    keys: list[ClusterKey]
    group: GroupKey
    thresholds: tuple[Threshold, ...]

    @property
    def has_value_test(self) -> bool:
        """Whether a list of values is tested, because it is too long to be spread over clusters."""
        return any(isinstance(test, Test) and isinstance(test.constraint, Values) for test in self.group.tests)


def plan_of(conjunction: Conjunction, *, repeated: bool = False) -> Plan:
    """The place of a conjunction in the index."""
    if _is_small(conjunction):
        return _kept_plan(conjunction, repeated)
    return _plan(conjunction, GroupKey, repeated=repeated)


# Needed when a conjunction is added to each of several indices, and again when it is removed from them.
@lru_cache(maxsize=8192)
def _kept_plan(conjunction: Conjunction, repeated: bool) -> Plan:
    return _plan(conjunction, _group_key, repeated=repeated)


def _is_small(conjunction: Conjunction) -> bool:
    """Whether the caches may be filled with conjunctions of this size: the largest have a megabyte each."""
    if len(conjunction.constraints) > _SMALL_CONSTRAINTS_MAX or len(conjunction.residuals) > 1:
        return False
    chars = sum(len(each.text) for each in conjunction.residuals)
    for constraint in conjunction.constraints.values():
        if constraint.__class__ is Values:
            keys = constraint[0]
            if len(keys) > _SMALL_VALUES_MAX:
                return False
            chars += sum(len(key) for key in keys if isinstance(key, str))
        elif constraint.__class__ is Range:
            if constraint.patterns or constraint.unlike or constraint.excluded:
                return False
            if constraint.text:
                chars += len(str(constraint.low)) + len(str(constraint.high))
    return chars <= _SMALL_CHARS_MAX


def _plan(conjunction: Conjunction, group_of: Callable[..., GroupKey], *, repeated: bool) -> Plan:
    probes: list[Probe] = []
    values: list[tuple[Key, ...]] = []
    bounds: list[Bound] = []
    thresholds: list[Threshold] = []
    tests: list[Test | Residual] = []
    several = False
    for name, constraint in conjunction.constraints.items():
        if constraint.__class__ is Values:
            keys: tuple[Key, ...] = constraint[0]
            probes.append(name)
            values.append(keys)
            if len(keys) > 1:
                several = True
        elif constraint.__class__ is Range:
            _take_range(name, constraint, probes, values, bounds, thresholds, tests)
        elif constraint.__class__ is Exists:
            probes.append((name, 0))
            values.append((PRESENT,))
        else:
            tests.append(Test(name, constraint))
    if len(bounds) > 1:
        bounds, thresholds = _with_columns(bounds, thresholds, tests)
    if conjunction.residuals:
        tests.extend(conjunction.residuals)
    if not probes and (name := _required(bounds, tests)):
        # Else every message would have to be tested against it, even those with none of its attributes.
        probes.append((name, 0))
        values.append((PRESENT,))
    found = _spread_keys(probes, values, tests) if several else [_single_key(values)]
    group = group_of(tuple(bounds), tuple(tests), len(found) > 1, repeated)
    return Plan(tuple(probes), found, group, tuple(thresholds))


def effort_in_index(selector: Selector) -> int:
    """How many operations a selector adds to the matching of one message, at most; lookups cost none."""
    return sum(plan_of(each).group.effort * len(plan_of(each).keys) for each in selector.conjunctions)


def _required(bounds: list[Bound], tests: list[Test | Residual]) -> str:
    """An attribute without which nothing matches, if there is one; empty otherwise."""
    if bounds:
        return bounds[0].name
    return next((test.name for test in tests if isinstance(test, Test) and not test.constraint.contains(None)), "")


def _take_range(
    name: str,
    constraint: Range,
    probes: list[Probe],
    values: list[tuple[Key, ...]],
    bounds: list[Bound],
    thresholds: list[Threshold],
    tests: list[Test | Residual],
) -> None:
    text, low, low_open, high, high_open, *_ = constraint
    prefix = constraint.prefix if text else None
    if prefix:
        probes.append((name, len(prefix)))
        values.append((prefix,))
    else:
        # Every text is at least the empty one, so that is no bound at all.
        if low is not None and (low != "" or low_open):
            bounds.append(_bound(name, ">" if low_open else ">=", text))
            thresholds.append(low)
        if high is not None:
            bounds.append(_bound(name, "<" if high_open else "<=", text))
            thresholds.append(high)
    if not constraint.simple or prefix == "":
        tests.append(Test(name, constraint))


def _with_columns(
    bounds: list[Bound], thresholds: list[Threshold], tests: list[Test | Residual]
) -> tuple[list[Bound], list[Threshold]]:
    """One bound of any type, to be kept sorted, then those that fit a column; the others become tests."""
    pairs = list(zip(bounds, thresholds, strict=True))
    kept = [pair for pair in pairs if _fits_column(pair[1])] or pairs[:1]
    tests.extend(Test(bound.name, _as_range(bound, limit)) for bound, limit in pairs if (bound, limit) not in kept)
    return [bound for bound, _ in kept], [threshold for _, threshold in kept]


def _single_key(values: list[tuple[Key, ...]]) -> ClusterKey:
    return values[0][0] if len(values) == 1 else tuple([keys[0] for keys in values])


def _spread_keys(probes: list[Probe], values: list[tuple[Key, ...]], tests: list[Test | Residual]) -> list[ClusterKey]:
    """The keys of all clusters a conjunction with lists of values belongs to; lists that are too long become tests."""
    if prod([len(keys) for keys in values]) > SPREAD_MAX:
        _shorten(probes, values, tests)
    return list(values[0]) if len(values) == 1 else list(product(*values))


def _shorten(probes: list[Probe], values: list[tuple[Key, ...]], tests: list[Test | Residual]) -> None:
    """Keeps the shortest lists, as long as they stay within the limit together; the others become tests."""
    places, kept = 1, set()
    for place in sorted(range(len(values)), key=lambda each: len(values[each])):
        places *= len(values[place])
        if places <= SPREAD_MAX:
            kept.add(place)
        else:
            probe = probes[place]
            assert isinstance(probe, str)
            tests.append(Test(probe, Values(values[place])))
    probes[:] = [probe for place, probe in enumerate(probes) if place in kept]
    values[:] = [keys for place, keys in enumerate(values) if place in kept]


# Shapes are few and conjunctions are many: a cache lookup is cheaper than building the same value again.
@lru_cache(maxsize=4096)
def _group_key(
    bounds: tuple[Bound, ...],
    tests: tuple[Test | Residual, ...],
    spread: bool,
    repeated: bool,
) -> GroupKey:
    return GroupKey(bounds, tests, spread, repeated)


@lru_cache(maxsize=4096)
def _bound(name: str, operator: str, text: bool) -> Bound:
    return Bound(name, operator, text)


def _fits_column(threshold: Threshold) -> bool:
    return not isinstance(threshold, str) and float(threshold) == threshold


def _as_range(bound: Bound, threshold: Threshold) -> Constraint:
    strict = bound.operator in {">", "<"}
    if bound.operator in {">", ">="}:
        made = Range.of(text=bound.text, low=threshold, low_open=strict)
    else:
        made = Range.of(text=bound.text, high=threshold, high_open=strict)
    assert made is not None
    return made
