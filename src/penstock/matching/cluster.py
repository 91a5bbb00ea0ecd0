"""Clusters: conjunctions that agree on their equalities, found by one dictionary lookup.

A *schema* is a set of probed attributes, such as class and symbol; it has one cluster for each combination of their
values. For a message, each schema yields at most one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from penstock.matching.chain import Bisect
from penstock.matching.group import Group
from penstock.matching.plan import PRESENT, ClusterKey, GroupKey, Probe
from penstock.model.values import Attributes
from penstock.selectors.constraint import Constraint, Key, Values, key_of

__all__ = ["Cluster", "Schema"]


class Cluster:
    """The groups of one combination of probed values, sorted by how they are searched."""

    __slots__ = ("groups", "key", "others", "plain", "ranges")

    def __init__(self, key: ClusterKey) -> None:
        self.key: Final = key
        self.groups: dict[GroupKey, Group] = {}
        self.plain: list[Group] = []
        """Simple groups without bounds: all their members match."""
        self.ranges: list[tuple[str, tuple[type, ...], Bisect, Group]] = []
        """Simple groups with one bound, laid out for the search."""
        self.others: list[Group] = []
        """Groups with columns, tests, or members that may be found twice."""

    def group(self, key: GroupKey) -> Group:
        """The group with this key, made if there is none yet."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(key)
            if not group.is_simple:
                self.others.append(group)
            elif key.bounds:
                self.ranges.append((group.name, group.types, group.bisect, group))
            else:
                self.plain.append(group)
        return group

    def drop(self, group: Group) -> None:
        """Forgets a group that has lost its last member."""
        assert not group.chain.size
        del self.groups[group.key]
        self.plain = [each for each in self.plain if each is not group]
        self.ranges = [each for each in self.ranges if each[3] is not group]
        self.others = [each for each in self.others if each is not group]


class Schema:
    """The clusters of one set of probed attributes."""

    __slots__ = ("_parts", "anchor", "clusters", "lookup", "probes")

    def __init__(self, probes: tuple[Probe, ...], anchor: str) -> None:
        self.probes: Final = probes
        self.anchor: Final = anchor
        """The attribute whose presence in a message makes this schema worth a look."""
        self.clusters: dict[ClusterKey, Cluster] = {}
        self._parts: dict[tuple[int, Key], dict[ClusterKey, Cluster]] = {}
        self.lookup: Final[Callable[[Attributes], Cluster | None]] = self._choose_lookup()

    def cluster(self, key: ClusterKey) -> Cluster:
        """The cluster of these values, made if there is none yet."""
        cluster = self.clusters.get(key)
        if cluster is None:
            cluster = self.clusters[key] = Cluster(key)
            for part in self._parts_of(cluster):
                self._parts.setdefault(part, {})[key] = cluster
        return cluster

    def drop(self, cluster: Cluster) -> None:
        """Forgets a cluster that has lost its last group."""
        assert not cluster.groups
        del self.clusters[cluster.key]
        for part in self._parts_of(cluster):
            del self._parts[part][cluster.key]
            if not self._parts[part]:
                del self._parts[part]

    def clusters_within(self, fixed: Mapping[int, Constraint]) -> Iterable[Cluster]:
        """The clusters, narrowed by the most selective of the constraints on probed values, not by all of them."""
        fewest: Iterable[Cluster] = self.clusters.values()
        count = len(self.clusters)
        for place, constraint in fixed.items():
            if isinstance(constraint, Values):
                parts = [self._parts.get((place, key), {}) for key in constraint.keys]
                size = sum(map(len, parts))
                if size < count:
                    fewest, count = [cluster for part in parts for cluster in part.values()], size
        return fewest

    def _parts_of(self, cluster: Cluster) -> Iterable[tuple[int, Key]]:
        return enumerate(self.keys_of(cluster))

    def keys_of(self, cluster: Cluster) -> tuple[Key, ...]:
        """The probed values of a cluster, one per probe."""
        return cluster.key if len(self.probes) != 1 else (cluster.key,)  # type: ignore[return-value]

    def _choose_lookup(self) -> Callable[[Attributes], Cluster | None]:
        # Nearly all schemas have one or two equalities; their own lookups cost a third of the general one.
        if all(isinstance(probe, str) for probe in self.probes):
            if len(self.probes) == 1:
                return self._lookup_one
            if len(self.probes) == 2:
                return self._lookup_two
        return self._lookup_any

    def _lookup_one(self, attributes: Attributes) -> Cluster | None:
        value = attributes[self.anchor]
        if value.__class__ is bool:
            value = key_of(value)  # type: ignore[assignment]
        return self.clusters.get(value)  # type: ignore[arg-type]

    def _lookup_two(self, attributes: Attributes) -> Cluster | None:
        first, second = self.probes
        one, two = attributes.get(first), attributes.get(second)  # type: ignore[arg-type]
        if one.__class__ is bool:
            one = key_of(one)  # type: ignore[assignment]
        if two.__class__ is bool:
            two = key_of(two)  # type: ignore[assignment]
        return self.clusters.get((one, two))  # type: ignore[arg-type]

    def _lookup_any(self, attributes: Attributes) -> Cluster | None:
        keys: list[Key] = []
        for probe in self.probes:
            key = _probe_key(probe, attributes)
            if key is None:
                return None
            keys.append(key)
        return self.clusters.get(keys[0] if len(keys) == 1 else tuple(keys))


def _probe_key(probe: Probe, attributes: Attributes) -> Key | None:
    """The value a probe reads from a message, or None if there is none."""
    if isinstance(probe, str):
        value = attributes.get(probe)
        return None if value is None else key_of(value)
    name, length = probe
    value = attributes.get(name)
    if value is None or length == 0:
        return None if value is None else PRESENT
    return value[:length] if isinstance(value, str) and len(value) >= length else None
