from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.matching.cluster import Cluster, Schema
from penstock.matching.group import Group
from penstock.matching.plan import ClusterKey, GroupKey, Probe, plan_of
from penstock.model.values import AttributeValue
from penstock.selectors import Selector
from penstock.selectors.constraint import Constraint, Exists, Key, Range, Values, key_of
from strategies import tries

Message = dict[str, AttributeValue]

TRUE, FALSE = key_of(value=True), key_of(value=False)
NAN = float("nan")


def schema_of(*probes: Probe, keys: list[ClusterKey]) -> Schema:
    first = probes[0] if probes else ""
    schema = Schema(probes, first if isinstance(first, str) else first[0])
    for key in keys:
        schema.cluster(key)
    return schema


def found(schema: Schema, message: Message) -> ClusterKey | None:
    cluster = schema.lookup(message)
    return None if cluster is None else cluster.key


def group_key(text: str, *, repeated: bool = False) -> GroupKey:
    (conjunction,) = Selector.parse(text).conjunctions
    return plan_of(conjunction, repeated=repeated).group


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (1, 1),
        (1.0, 1),
        (True, TRUE),
        (0, 0),
        (-0.0, 0),
        (False, None),
        ("x", "x"),
        ("", ""),
        ("1", None),
        (2, None),
        (None, None),
        (NAN, None),
        (10**400, None),
        (2**53, 2**53),
        (2**53 + 1, None),
        (float(2**53), 2**53),
    ],
)
def test_one_probe_finds_the_cluster_of_the_value(value: AttributeValue, key: Key | None) -> None:
    keys: list[ClusterKey] = [1, TRUE, 0, "x", "", 2**53]
    assert found(schema_of("a", keys=keys), {"a": value, "b": 1}) == key


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ({"a": 1, "b": 2}, (1, 2)),
        ({"b": 2, "a": 1}, (1, 2)),
        ({"a": 1.0, "b": 2.0, "c": 3}, (1, 2)),
        ({"a": 2, "b": 1}, None),
        ({"a": True, "b": 2}, (TRUE, 2)),
        ({"a": 1, "b": True}, (1, TRUE)),
        ({"a": True, "b": True}, None),
        ({"a": True, "b": False}, (TRUE, FALSE)),
        ({"a": 1, "b": 1}, None),
        ({"a": 1}, None),
        ({"a": 1, "b": None}, None),
        ({"a": None, "b": 2}, None),
        ({"a": NAN, "b": 2}, None),
    ],
)
def test_two_probes_find_the_cluster_of_both_values(message: Message, key: ClusterKey | None) -> None:
    schema = schema_of("a", "b", keys=[(1, 2), (TRUE, 2), (1, TRUE), (TRUE, FALSE)])
    assert found(schema, message) == key


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ({"a": 1, "b": 2, "c": 3}, (1, 2, 3)),
        ({"a": True, "b": 2, "c": 3}, (TRUE, 2, 3)),
        ({"a": 1, "b": 2, "c": True}, None),
        ({"a": 1, "b": 2}, None),
        ({"a": 1, "b": 2, "c": None}, None),
        ({"a": 1, "b": 2, "c": NAN}, None),
        ({"a": 3, "b": 2, "c": 1}, None),
    ],
)
def test_many_probes_find_the_cluster_of_all_values(message: Message, key: ClusterKey | None) -> None:
    assert found(schema_of("a", "b", "c", keys=[(1, 2, 3), (TRUE, 2, 3)]), message) == key


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("ab", "ab"),
        ("abc", "ab"),
        ("éa", "éa"),
        ("a", None),
        ("", None),
        ("ba", None),
        (1, None),
        (True, None),
        (None, None),
    ],
)
def test_a_prefix_probe_finds_texts_that_start_so(value: AttributeValue, key: Key | None) -> None:
    # The cluster of a shorter prefix must not be found by a text that is too short for the probe.
    assert found(schema_of(("s", 2), keys=["ab", "éa", "a", ""]), {"s": value}) == key


@pytest.mark.parametrize(("value", "key"), [(1, TRUE), (0, TRUE), ("", TRUE), (False, TRUE), (NAN, TRUE), (None, None)])
def test_a_probe_of_presence_finds_whatever_is_there(value: AttributeValue, key: Key | None) -> None:
    assert found(schema_of(("a", 0), keys=[TRUE]), {"a": value}) == key


def test_a_schema_without_probes_has_one_cluster_for_every_message() -> None:
    assert found(schema_of(keys=[()]), {"a": 1}) == ()
    assert found(schema_of(keys=[()]), {}) == ()
    assert found(schema_of(keys=[]), {}) is None


PROBES: list[Probe] = ["a", "b", "c", ("s", 1), ("s", 2), ("b", 0), ("t", 0)]
scalars: st.SearchStrategy[AttributeValue] = st.sampled_from(
    [0, 1, True, False, 1.0, 0.5, "a", "ab", "abc", "b", "", NAN, 10**400, -(10**400)]
)
some_probes: st.SearchStrategy[list[Probe]] = st.lists(st.sampled_from(PROBES), min_size=1, max_size=4, unique=True)


def key_for(probe: Probe) -> st.SearchStrategy[Key]:
    if isinstance(probe, str):
        return st.sampled_from([0, 1, TRUE, FALSE, 0.5, "a", "ab"])
    return (
        st.sampled_from(["a", "b", "ab", "ba"]).filter(lambda key: len(key) == probe[1]) if probe[1] else st.just(TRUE)
    )


def agrees(probe: Probe, key: Key, message: Message) -> bool:
    """What it means to be in a cluster, said by constraints."""
    if isinstance(probe, str):
        return Values((key,)).contains(message.get(probe))
    value = message.get(probe[0])
    if probe[1] == 0:
        return value is not None
    return isinstance(value, str) and isinstance(key, str) and value.startswith(key)


@settings(max_examples=tries(500))
@given(some_probes, st.data())
def test_a_lookup_finds_the_one_cluster_that_agrees_with_the_message(probes: list[Probe], data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.tuples(*map(key_for, probes)), max_size=8, unique=True))
    schema = schema_of(*probes, keys=[each[0] if len(probes) == 1 else each for each in parts])
    message = data.draw(st.dictionaries(st.sampled_from("abcst"), scalars))
    message.setdefault(schema.anchor, data.draw(scalars))
    expected = [
        cluster
        for cluster in schema.clusters.values()
        if all(agrees(probe, key, message) for probe, key in zip(probes, schema.keys_of(cluster), strict=True))
    ]
    assert len(expected) <= 1
    assert schema.lookup(message) is (expected[0] if expected else None)


def test_a_cluster_is_made_once() -> None:
    schema = schema_of("a", keys=[])
    assert schema.cluster(1) is schema.cluster(1.0)
    assert schema.cluster(1) is not schema.cluster(TRUE)
    assert list(schema.clusters) == [1, TRUE]


@pytest.mark.parametrize(
    ("probes", "key", "keys"),
    [(("a",), 1, (1,)), (("a",), TRUE, (TRUE,)), (("a", "b"), (1, TRUE), (1, TRUE)), ((), (), ())],
)
def test_the_keys_of_a_cluster_are_one_per_probe(
    probes: tuple[Probe, ...], key: ClusterKey, keys: tuple[Key, ...]
) -> None:
    schema = schema_of(*probes, keys=[key])
    assert schema.keys_of(schema.clusters[key]) == keys


def within(schema: Schema, fixed: dict[int, Constraint]) -> list[ClusterKey]:
    return [cluster.key for cluster in schema.clusters_within(fixed)]


GRID: list[ClusterKey] = [(1, "x"), (1, "y"), (2, "x"), (2, "y"), (3, "x"), (TRUE, "z")]


@pytest.mark.parametrize(
    ("fixed", "keys"),
    [
        ({}, GRID),
        ({0: Values((1,))}, [(1, "x"), (1, "y")]),
        ({0: Values((TRUE,))}, [(TRUE, "z")]),
        ({0: Values((1, 3))}, [(1, "x"), (1, "y"), (3, "x")]),
        ({0: Values((9,))}, []),
        ({1: Values(("x",))}, [(1, "x"), (2, "x"), (3, "x")]),
        ({0: Values((1,)), 1: Values(("x",))}, [(1, "x"), (1, "y")]),
        ({0: Values((1, 2)), 1: Values(("z",))}, [(TRUE, "z")]),
        ({0: Exists()}, GRID),
        ({0: Range(text=False, low=2)}, GRID),
        ({0: Range(text=False, low=2), 1: Values(("z",))}, [(TRUE, "z")]),
    ],
)
def test_clusters_are_narrowed_by_the_most_telling_list_of_values(
    fixed: dict[int, Constraint], keys: list[ClusterKey]
) -> None:
    assert within(schema_of("a", "b", keys=GRID), fixed) == keys


def test_clusters_of_one_probe_are_narrowed_as_well() -> None:
    schema = schema_of("a", keys=[1, TRUE, "x"])
    assert within(schema, {0: Values((TRUE,))}) == [TRUE]
    assert within(schema, {0: Values((1, "x", 9))}) == [1, "x"]


@settings(max_examples=tries(300))
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True, max_size=16),
    st.dictionaries(st.integers(0, 1), st.sets(st.integers(0, 4), min_size=1, max_size=3)),
    st.data(),
)
def test_no_cluster_that_agrees_is_narrowed_away_also_after_drops(
    keys: list[tuple[int, int]], allowed: dict[int, set[int]], data: st.DataObject
) -> None:
    schema = schema_of("a", "b", keys=list(keys))
    dropped = data.draw(st.sets(st.sampled_from(keys))) if keys else set()
    for key in sorted(dropped):
        schema.drop(schema.clusters[key])
    left = [key for key in keys if key not in dropped]
    some = within(schema, {place: Values(tuple(sorted(those))) for place, those in allowed.items()})
    assert len(some) == len(set(some))
    assert set(some) <= set(left)
    assert {key for key in left if all(key[place] in those for place, those in allowed.items())} <= set(some)
    counts = [sum(key[place] in those for key in left) for place, those in allowed.items()]
    assert len(some) == min([len(left), *counts])


def test_a_dropped_cluster_is_found_no_more_and_may_come_again() -> None:
    schema = schema_of("a", "b", keys=[(1, 2), (1, 3)])
    gone = schema.clusters[1, 2]
    schema.drop(gone)
    assert found(schema, {"a": 1, "b": 2}) is None
    assert found(schema, {"a": 1, "b": 3}) == (1, 3)
    assert within(schema, {0: Values((1,))}) == [(1, 3)]
    assert schema.cluster((1, 2)) is not gone
    assert within(schema, {1: Values((2,))}) == [(1, 2)]


def test_a_schema_that_lost_its_clusters_holds_nothing() -> None:
    schema = schema_of("a", "b", keys=[(1, 2), (1, TRUE)])
    for cluster in list(schema.clusters.values()):
        schema.drop(cluster)
    assert not schema.clusters
    assert not schema._parts


def test_a_cluster_with_groups_cannot_be_dropped() -> None:
    schema = schema_of("a", keys=[1])
    schema.clusters[1].group(group_key("b > 1"))
    with pytest.raises(AssertionError):
        schema.drop(schema.clusters[1])
    assert found(schema, {"a": 1}) == 1


def places_of(cluster: Cluster, group: Group) -> list[str]:
    """How the cluster searches the group."""
    places = ["plain"] * any(each is group for each in cluster.plain)
    places += ["ranges"] * any(part is group for entry in cluster.ranges for part in entry)
    return places + ["others"] * any(each is group for each in cluster.others)


SHAPES = [
    (group_key("TRUE"), "plain"),
    (group_key("b > 1"), "ranges"),
    (group_key("b <= 1"), "ranges"),
    (group_key("s < 'x'"), "ranges"),
    (group_key("b > 1 AND c > 1"), "others"),
    (group_key("b <> 1"), "others"),
    (group_key("b > 1 AND c IS NULL"), "others"),
    (group_key("TRUE", repeated=True), "others"),
    (group_key("b > 1", repeated=True), "others"),
]


@pytest.mark.parametrize(("key", "place"), SHAPES)
def test_a_group_is_searched_as_its_shape_allows(key: GroupKey, place: str) -> None:
    cluster = Cluster(1)
    assert places_of(cluster, cluster.group(key)) == [place]


def test_a_group_is_made_once_for_its_key() -> None:
    cluster = Cluster(1)
    assert cluster.group(group_key("b > 1")) is cluster.group(group_key("b > 2"))
    assert cluster.group(group_key("b > 1")) is not cluster.group(group_key("b >= 1"))
    assert len(cluster.groups) == len(cluster.ranges) == 2


@pytest.mark.parametrize("key", [key for key, _ in SHAPES])
def test_a_dropped_group_is_gone_and_the_others_stay(key: GroupKey) -> None:
    cluster = Cluster(1)
    groups = [cluster.group(each) for each, _ in SHAPES]
    gone = cluster.groups[key]
    cluster.drop(gone)
    assert places_of(cluster, gone) == []
    assert [group for group in groups if places_of(cluster, group)] == [group for group in groups if group is not gone]
    assert list(cluster.groups) == [each for each, _ in SHAPES if each != key]


def test_a_group_with_members_cannot_be_dropped() -> None:
    cluster = Cluster(1)
    group = cluster.group(group_key("b > 1"))
    group.chain.insert(1, 7)
    with pytest.raises(AssertionError):
        cluster.drop(group)
    assert cluster.groups
