"""Finds which subscriptions cover which, in the matching index: the order behind the poset of [PADRES] section 2.

A selector is looked up as if it were a message. Subscriptions that cover it have thresholds at most as narrow as
its own and equalities that it implies; those that it covers lie in the clusters that agree with it. The index narrows
the candidates, and each of them is then checked exactly: an answer is never wrong.

Deviation from the paper: no graph of parents and children is stored. It would cost memory per pair and time per
insertion, while the sorted groups hold the same order already: within a group with one bound the most general member
comes first and covers all the others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from penstock.matching.chain import Ids
from penstock.matching.cluster import Cluster, Schema
from penstock.matching.group import Group
from penstock.matching.index import MatchIndex
from penstock.matching.plan import PRESENT, Bound, Probe, Test, Threshold
from penstock.selectors.constraint import Constraint, Key, Null, Range, Values, value_of
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import Selector

__all__ = ["Effort", "TooDearError", "covered_by", "coverers_of", "heads_covered_by", "is_covered"]


class TooDearError(Exception):
    """An answer would take more looks than allowed."""


class Effort:
    """A budget of fruitless looks at parts of an index; a search that exhausts it gets no answer."""

    __slots__ = ("_left",)

    def __init__(self, looks: int) -> None:
        self._left = looks

    def spend(self) -> None:
        """Spend a look; raises ``TooDearError`` if there were too many."""
        self._left -= 1
        if self._left < 0:
            raise TooDearError

    def give_back(self) -> None:
        """Refund a look that was worth it."""
        self._left += 1


def coverers_of(index: MatchIndex, selector: Selector) -> list[int]:
    """The subscriptions that cover the selector, in ascending order."""
    wanted = selector.conjunctions
    if not wanted:
        return sorted(index)
    candidates = {each for group in _groups_above(index, wanted[0]) for each in _members_above(group, wanted[0])}
    return sorted(each for each in candidates if _covers_all(index.conjunctions(each), wanted))


def covered_by(index: MatchIndex, selector: Selector) -> list[int]:
    """The subscriptions that the selector covers, in ascending order."""
    found = set(index.never_matching)
    for conjunction in selector.conjunctions:
        for _, group, certain in _groups_below(index, conjunction):
            members = _members_below(group, conjunction)
            if certain and not group.key.repeated:
                found.update(members)
            else:
                found.update(
                    each
                    for each in members
                    if each not in found and _covers_all(selector.conjunctions, index.conjunctions(each))
                )
    return sorted(found)


def is_covered(index: MatchIndex, conjunction: Conjunction, *, but_by: int = -1, effort: Effort | None = None) -> bool:
    """Whether some subscription with a single conjunction, other than the named one, covers the conjunction."""
    for group in _groups_above(index, conjunction):
        if effort is not None:
            effort.spend()
        for member in _members_above(group, conjunction, heads_only=True):
            if effort is not None:
                effort.spend()
            if member != but_by and index.conjunctions(member)[0].covers(conjunction):
                return True
    return False


def heads_covered_by(index: MatchIndex, conjunction: Conjunction, *, effort: Effort | None = None) -> list[int]:
    """Subscriptions that the conjunction covers and that cover, between them, all others it covers.

    For an index in which every subscription has a single conjunction. The answer may hold more than the most general
    ones: groups that their thresholds do not order are listed in full.
    """
    heads: dict[int, None] = {}
    settled: Cluster | None = None
    for cluster, group, certain in _groups_below(index, conjunction, effort):
        if cluster is settled and not group.key.spread:
            continue
        ordered = len(group.key.bounds) <= 1 and not group.key.spread
        for member in _members_below(group, conjunction):
            if effort is not None:
                effort.spend()
            if certain or conjunction.covers(index.conjunctions(member)[0]):
                heads[member] = None
                if effort is not None:
                    effort.give_back()
                if ordered:
                    if not group.key.bounds and not group.key.tests:
                        settled = cluster
                    break
    return list(heads)


def _covers_all(covering: tuple[Conjunction, ...], covered: tuple[Conjunction, ...]) -> bool:
    return all(any(one.covers(other) for one in covering) for other in covered)


# --- upwards: who covers this conjunction


def _groups_above(index: MatchIndex, conjunction: Conjunction) -> Iterator[Group]:
    for schema in index.schemas_for(conjunction.constraints):
        cluster = _cluster_above(schema, conjunction)
        if cluster is not None:
            yield from cluster.groups.values()


def _cluster_above(schema: Schema, conjunction: Conjunction) -> Cluster | None:
    keys: list[Key] = []
    for probe in schema.probes:
        key = _implied_key(probe, conjunction)
        if key is None:
            return None
        keys.append(key)
    return schema.clusters.get(keys[0] if len(keys) == 1 else tuple(keys))


def _implied_key(probe: Probe, conjunction: Conjunction) -> Key | None:
    """The probed value shared by everything that covers the conjunction, if it implies one."""
    name, length = (probe, None) if isinstance(probe, str) else probe
    constraint = conjunction.constraints.get(name)
    if constraint is None or isinstance(constraint, Null):
        return None
    if length is None:
        # Of several values any one will do: a list that covers them all is in the clusters of each of them.
        return constraint.keys[0] if isinstance(constraint, Values) else None
    if length == 0:
        return PRESENT
    low, _ = _reach(constraint, text=True)
    return low[:length] if isinstance(low, str) and len(low) >= length else None


def _members_above(group: Group, conjunction: Conjunction, *, heads_only: bool = False) -> Iterator[int]:
    limits = []
    for bound in group.key.bounds:
        constraint = conjunction.constraints.get(bound.name)
        limit = None if constraint is None else _limit(bound, constraint)
        if limit is None:
            return
        limits.append(limit)
    found: list[Ids] = []
    if not limits:
        group.chain.everything(found)
    elif group.ascending:
        group.chain.before(limits[0], bisect_right, found)
    else:
        group.chain.after(limits[0], bisect_left, found)
    ordered = len(group.key.bounds) <= 1 and not group.key.spread
    if heads_only and ordered:
        # Two, not one: the most general member may be the very conjunction that is asked about.
        found = _general_end(found, group, 2)
    for ids in found:
        yield from ids.tolist()


def _general_end(found: list[Ids], group: Group, count: int) -> list[Ids]:
    if not found:
        return []
    if group.ascending or not group.key.bounds:
        return [np.concatenate(found[:2])[:count]]
    return [np.concatenate(found)[-count:]]


def _limit(bound: Bound, constraint: Constraint) -> Threshold | None:
    """The narrowest threshold that a bound may have and still cover the constraint."""
    low, high = _reach(constraint, text=bound.text)
    return low if bound.operator[0] == ">" else high


def _reach(constraint: Constraint, *, text: bool) -> tuple[Threshold | None, Threshold | None]:
    """The lowest and highest value of a constraint; None where it has no limit or another type."""
    if isinstance(constraint, Values):
        values = [value_of(key) for key in constraint.keys]
        if any(isinstance(value, bool) or isinstance(value, str) != text for value in values):
            return None, None
        return min(values), max(values)
    if isinstance(constraint, Range) and constraint.text == text:
        return constraint.low, constraint.high
    return None, None


# --- downwards: what this conjunction covers


def _groups_below(
    index: MatchIndex, conjunction: Conjunction, effort: Effort | None = None
) -> Iterator[tuple[Cluster, Group, bool]]:
    """Groups that may have covered members, each with True if all its members' conjunctions are covered."""
    for schema in index.schemas.values():
        if effort is not None:
            effort.spend()
        open_names = [name for name in conjunction.constraints if name not in schema.probes]
        # A covered conjunction has values wherever this one does; those are probes, except for very long lists.
        if not index.value_tests and any(isinstance(conjunction.constraints[name], Values) for name in open_names):
            continue
        for cluster in _clusters_below(schema, conjunction):
            certain = not open_names and not conjunction.residuals
            # Plain groups first: their members cover the rest of the cluster.
            for group in sorted(cluster.groups.values(), key=_size_of_key):
                if effort is not None:
                    effort.spend()
                if _may_hold(schema, group, conjunction, open_names):
                    if effort is not None:
                        effort.give_back()
                    # A member that is spread over clusters may have values outside those covered.
                    yield cluster, group, certain and not group.key.spread


def _size_of_key(group: Group) -> int:
    return len(group.key.bounds) + len(group.key.tests)


def _clusters_below(schema: Schema, conjunction: Conjunction) -> Iterator[Cluster]:
    fixed: dict[int, Constraint] = {
        place: conjunction.constraints[probe]
        for place, probe in enumerate(schema.probes)
        if isinstance(probe, str) and probe in conjunction.constraints
    }
    for cluster in schema.clusters_within(fixed):
        keys = schema.keys_of(cluster)
        if all(constraint.contains(value_of(keys[place])) for place, constraint in fixed.items()):
            yield cluster


def _may_hold(schema: Schema, group: Group, conjunction: Conjunction, open_names: list[str]) -> bool:
    tests = group.key.tests
    if not all(residual in tests for residual in conjunction.residuals):
        return False
    if not open_names:
        return True
    constrained = {bound.name for bound in group.key.bounds}
    constrained.update(test.name for test in tests if isinstance(test, Test))
    constrained.update(probe[0] for probe in schema.probes if not isinstance(probe, str))
    return all(name in constrained for name in open_names)


def _members_below(group: Group, conjunction: Conjunction) -> Iterator[int]:
    """Members that may be covered, most general first where the group is ordered."""
    found: list[Ids] = []
    constraint = conjunction.constraints.get(group.name) if group.key.bounds else None
    if constraint is None or not isinstance(constraint, Range):
        group.chain.everything(found)
    elif constraint.text != group.key.bounds[0].text:
        return
    elif group.ascending and constraint.low is not None:
        group.chain.after(constraint.low, bisect_left, found)
    elif not group.ascending and constraint.high is not None:
        group.chain.before(constraint.high, bisect_right, found)
    else:
        group.chain.everything(found)
    for ids in found if group.ascending else reversed(found):
        yield from ids.tolist() if group.ascending else ids[::-1].tolist()
