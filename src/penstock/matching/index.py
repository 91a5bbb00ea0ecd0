"""Finds the subscriptions that match a message, by an index over all of them instead of a loop.

The heart of a content-based broker ([PADRES] section 2; clustering by equalities as in the matching literature it
builds on). A message finds, for each set of attributes that subscriptions test for equality, the one cluster with its
own values; within it, each chain of thresholds is cut by one bisection. The answer is made of slices of arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from penstock.matching.chain import Ids
from penstock.matching.cluster import Cluster, Schema
from penstock.matching.errors import SubscriptionError
from penstock.matching.group import Group, Verdicts
from penstock.matching.plan import Plan, Probe, plan_of
from penstock.model.values import Attributes
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import Selector

__all__ = ["LINKS_MAX", "SUBSCRIPTION_MAX", "MatchIndex", "Matches"]

SUBSCRIPTION_MAX: Final = 2**24
"""Subscription numbers are below this: they are small, dense numbers that index arrays."""
LINKS_MAX: Final = 2**16
"""Link numbers are below this."""


class Matches:
    """The subscriptions found for one message, as slices of the index; valid until the index changes."""

    __slots__ = ("repeated", "slices")

    def __init__(self, slices: list[Ids], repeated: list[Ids]) -> None:
        self.slices: Final = slices
        """Disjoint slices of subscription numbers."""
        self.repeated: Final = repeated
        """Further slices, which may name a subscription several times (never one that ``slices`` has)."""

    def ids(self) -> Ids:
        """The numbers of all matching subscriptions, each once, in no particular order; a read-only copy."""
        return np.frombuffer(self.packed(), np.uint32)

    def packed(self) -> bytes:
        """The same numbers as bytes, four each in the order of this machine."""
        slices = self.slices
        if self.repeated:
            slices = [*slices, np.unique(np.concatenate(self.repeated))]
        # Half the price of np.concatenate for the few short slices of a typical message.
        return b"".join(slices)  # type: ignore[arg-type] # arrays are buffers

    def count(self) -> int:
        """How many subscriptions match."""
        once = sum(map(len, self.slices))
        return once + np.unique(np.concatenate(self.repeated)).size if self.repeated else once

    def __bool__(self) -> bool:
        return bool(self.slices or self.repeated)


class MatchIndex:
    """Subscriptions, by number, ready to be matched.

    >>> index = MatchIndex()
    >>> index.add(1, Selector.parse("symbol = 'YHOO' AND volume > 15"), link=3)
    >>> index.add(2, Selector.parse("symbol = 'IBM'"))
    >>> index.find({"symbol": "YHOO", "volume": 100}).ids().tolist()
    [1]
    >>> bin(index.links({"symbol": "YHOO", "volume": 100}))
    '0b1000'
    """

    __slots__ = (
        "_anchored",
        "_conjunctions",
        "_link_of",
        "_links",
        "_unanchored",
        "effort",
        "groups",
        "never_matching",
        "schemas",
        "value_tests",
    )

    def __init__(self) -> None:
        self.schemas: Final[dict[tuple[Probe, ...], Schema]] = {}
        self._anchored: dict[str, list[Schema]] = {}
        self._unanchored: Schema | None = None
        self._conjunctions: dict[int, tuple[Conjunction, ...]] = {}
        self._link_of = np.zeros(64, np.uint16)
        self.never_matching: Final[dict[int, None]] = {}
        """Subscriptions whose selector nothing can satisfy."""
        self.groups = 0
        """Groups in all clusters: the most that a search for covered subscriptions may have to look at."""
        self.effort = 0
        """Operations of all tests in all groups: the most that matching one message may take, besides lookups."""
        self.value_tests = 0
        """Conjunctions with a list of values too long to be spread over clusters."""

    def __len__(self) -> int:
        return len(self._conjunctions)

    def __contains__(self, subscription: int) -> bool:
        return subscription in self._conjunctions

    def __iter__(self) -> Iterator[int]:
        return iter(self._conjunctions)

    def conjunctions(self, subscription: int) -> tuple[Conjunction, ...]:
        """The conjunctions of a subscription's selector."""
        return self._conjunctions[subscription]

    def add(self, subscription: int, selector: Selector, link: int = 0) -> None:
        """Adds a subscription that came from a link."""
        self.add_conjunctions(subscription, selector.conjunctions, link)

    def add_conjunctions(self, subscription: int, conjunctions: tuple[Conjunction, ...], link: int = 0) -> None:
        """Adds a subscription given as its normal form."""
        if subscription in self._conjunctions or not (0 <= subscription < len(self._link_of) and 0 <= link < LINKS_MAX):
            self._check_new(subscription, link)
        self._conjunctions[subscription] = conjunctions
        several = len(conjunctions) > 1
        self._link_of[subscription] = link
        if not conjunctions:
            self.never_matching[subscription] = None
        for conjunction in conjunctions:
            probes, keys, group_key, thresholds = plan = plan_of(conjunction, repeated=several)
            if group_key.tests:
                self.value_tests += plan.has_value_test
            schema = self.schemas.get(probes) or self._new_schema(probes)
            first = thresholds[0] if thresholds else 0
            for key in keys:
                cluster = schema.clusters.get(key) or schema.cluster(key)
                group = cluster.groups.get(group_key)
                if group is None:
                    group = cluster.group(group_key)
                    self.groups += 1
                    if group_key.tests:
                        self.effort += group_key.effort
                group.chain.insert(first, subscription, thresholds[1:])  # type: ignore[arg-type]
                group.links.add(link, first)

    def remove(self, subscription: int) -> None:
        """Removes a subscription."""
        conjunctions = self._conjunctions.pop(subscription, None)
        if conjunctions is None:
            raise SubscriptionError(f"subscription {subscription} is not in the index")
        link = int(self._link_of[subscription])
        self.never_matching.pop(subscription, None)
        for conjunction in conjunctions:
            self._take_out(subscription, link, plan_of(conjunction, repeated=len(conjunctions) > 1))

    def find(self, attributes: Attributes) -> Matches:
        """The subscriptions that match a message with these attributes."""
        found: list[Ids] = []
        repeated: list[Ids] = []
        get = attributes.get
        for cluster in self._clusters(attributes):
            for group in cluster.plain:
                group.chain.everything(found)
            for name, types, bisect, group in cluster.ranges:
                value = get(name)
                if value.__class__ not in types or value != value:  # noqa: PLR0124 - NaN matches nothing
                    continue
                chain = group.chain
                if chain.maxima:
                    group.take(value, bisect, found)  # type: ignore[arg-type]
                    continue
                # Like ``take``, inlined for a chain of one block: this is the innermost loop of a broker.
                block = chain.blocks[0]
                place = bisect(block.thresholds, value)  # type: ignore[arg-type]
                ids = block.ids
                if ids is None:
                    ids = block.fresh()
                if not group.ascending:
                    if place < len(block.thresholds):
                        found.append(ids[place:])
                elif place:
                    found.append(ids[:place])
            if cluster.others:
                verdicts: Verdicts = {}
                for group in cluster.others:
                    group.collect(attributes, verdicts, repeated if group.key.repeated else found)
        return Matches(found, repeated)

    def links(self, attributes: Attributes) -> int:
        """The links with at least one matching subscription, as a bitmap."""
        mask = 0
        get = attributes.get
        for cluster in self._clusters(attributes):
            for group in cluster.plain:
                mask |= group.links.mask
            for name, types, bisect, group in cluster.ranges:
                value = get(name)
                if value.__class__ in types and value == value:  # noqa: PLR0124 - NaN matches nothing
                    mask |= group.links.at(value, bisect)  # type: ignore[arg-type]
            if cluster.others:
                verdicts: Verdicts = {}
                for group in cluster.others:
                    # Test a group only if it could add a link.
                    if group.links.mask & ~mask:
                        mask |= group.links_of(attributes, verdicts, self._link_of)
        return mask

    def schemas_for(self, names: Iterable[str]) -> Iterator[Schema]:
        """All schemas that probe only some of these attributes, and maybe some that also probe others."""
        if self._unanchored is not None:
            yield self._unanchored
        for name in names:
            yield from self._anchored.get(name, ())

    def check_invariants(self) -> None:
        """Fails if the parts of the index contradict each other."""
        members = 0
        for schema in self.schemas.values():
            assert schema.clusters, f"empty schema {schema.probes}"
            for cluster in schema.clusters.values():
                assert cluster.groups, f"empty cluster {cluster.key}"
                for group in cluster.groups.values():
                    group.chain.check_invariants()
                    assert group.chain.size
                    members += group.chain.size
        expected = sum(len(plan_of(each).keys) for those in self._conjunctions.values() for each in those)
        assert members == expected
        clusters = [cluster for schema in self.schemas.values() for cluster in schema.clusters.values()]
        assert self.groups == sum(len(cluster.groups) for cluster in clusters)
        assert self.effort == sum(key.effort for cluster in clusters for key in cluster.groups)
        assert sum(map(len, self._anchored.values())) == len(self.schemas) - (() in self.schemas)

    def _clusters(self, attributes: Attributes) -> list[Cluster]:
        anchored = self._anchored
        found = list(self._unanchored.clusters.values()) if self._unanchored is not None else []
        for name in attributes:
            if name in anchored:
                for schema in anchored[name]:
                    cluster = schema.lookup(attributes)
                    if cluster is not None:
                        found.append(cluster)
        return found

    def _check_new(self, subscription: int, link: int) -> None:
        if subscription in self._conjunctions:
            raise SubscriptionError(f"subscription {subscription} is in the index already")
        if not 0 <= subscription < SUBSCRIPTION_MAX:
            raise SubscriptionError(f"subscription number {subscription} is not in 0 .. {SUBSCRIPTION_MAX - 1}")
        if not 0 <= link < LINKS_MAX:
            raise SubscriptionError(f"link number {link} is not in 0 .. {LINKS_MAX - 1}")
        if subscription >= len(self._link_of):
            self._link_of = np.resize(self._link_of, max(2 * len(self._link_of), subscription + 1))

    def _new_schema(self, probes: tuple[Probe, ...]) -> Schema:
        names = [probe if isinstance(probe, str) else probe[0] for probe in probes]
        # The attribute that the fewest other schemas wait for: it is likely to be absent from most messages.
        anchor = min(names, key=lambda name: len(self._anchored.get(name, ())), default="")
        schema = self.schemas[probes] = Schema(probes, anchor)
        if names:
            self._anchored.setdefault(anchor, []).append(schema)
        else:
            self._unanchored = schema
        return schema

    def _take_out(self, subscription: int, link: int, plan: Plan) -> None:
        self.value_tests -= plan.has_value_test
        schema = self.schemas[plan.probes]
        first = plan.thresholds[0] if plan.thresholds else 0
        for key in plan.keys:
            cluster = schema.clusters[key]
            group = cluster.groups[plan.group]
            group.chain.delete(first, subscription)
            group.links.remove(link, first, group.chain, self._link_of)
            if not group.chain.size:
                self._drop(schema, cluster, group)

    def _drop(self, schema: Schema, cluster: Cluster, group: Group) -> None:
        cluster.drop(group)
        self.groups -= 1
        if group.key.tests:
            self.effort -= group.key.effort
        if cluster.groups:
            return
        schema.drop(cluster)
        if schema.clusters:
            return
        del self.schemas[schema.probes]
        if schema.probes:
            self._anchored[schema.anchor].remove(schema)
            if not self._anchored[schema.anchor]:
                del self._anchored[schema.anchor]
        else:
            self._unanchored = None
