"""Spanning trees: every broker computes its own place, and all the places together are one tree of shortest paths."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.neighbours.topology import Graph
from penstock.broker.neighbours.trees import Branches, branches
from strategies import tries

RING: Graph = {"a": ("b", "d"), "b": ("a", "c"), "c": ("b", "d"), "d": ("a", "c")}
pubends = st.sampled_from(["p", "q", "quotes.eu", "$n0", ""])


def graph_of(size: int, edges: set[tuple[int, int]]) -> Graph:
    found: dict[str, set[str]] = {f"n{number}": set() for number in range(size)}
    for one, other in edges:
        if one % size != other % size:
            found[f"n{one % size}"].add(f"n{other % size}")
            found[f"n{other % size}"].add(f"n{one % size}")
    return {name: tuple(sorted(others)) for name, others in found.items()}


@st.composite
def connected_graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 9))
    tree = {(number, draw(st.integers(0, number - 1))) for number in range(1, size)}
    more = draw(st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=14))
    return graph_of(size, tree | more)


any_graphs = st.builds(
    graph_of, st.integers(1, 8), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=8)
)


def distances_from(graph: Graph, origin: str) -> dict[str, int]:
    found, waiting = {origin: 0}, deque([origin])
    while waiting:
        node = waiting.popleft()
        for other in graph[node]:
            if other not in found:
                found[other] = found[node] + 1
                waiting.append(other)
    return found


def check_tree(graph: Graph, origin: str, pubend: str) -> None:
    distances = distances_from(graph, origin)
    places = {name: branches(graph, origin, pubend, name) for name in graph}
    assert {name for name, place in places.items() if place.reached} == set(distances)
    for name, place in places.items():
        if not place.reached:
            assert place == Branches(None, {}, reached=False)
            continue
        check_place(name, place, places)
        if place.parent is None:
            assert name == origin
            assert frozenset().union(*place.below.values()) | {origin} == set(distances)
        else:
            assert place.parent in graph[name]
            assert distances[place.parent] == distances[name] - 1


def check_place(name: str, place: Branches, places: dict[str, Branches]) -> None:
    """The children agree that this is their parent, the parent that this is its child, and no broker is behind two."""
    if place.parent is not None:
        assert name in places[place.parent].below
    assert list(place.below) == sorted(place.below)
    for child, behind in place.below.items():
        assert places[child].parent == name
        assert behind == frozenset({child}).union(*places[child].below.values())
    behind_any = [broker for behind in place.below.values() for broker in behind]
    assert len(behind_any) == len(set(behind_any))
    assert name not in behind_any
    for child, behind in place.below.items():
        assert {place.towards(broker) for broker in behind} == {child}
    assert place.towards(name) is None


@settings(max_examples=tries(300))
@given(connected_graphs(), pubends, st.data())
def test_in_a_connected_graph_all_places_make_one_tree_of_shortest_paths(
    graph: Graph, pubend: str, data: st.DataObject
) -> None:
    origin = data.draw(st.sampled_from(sorted(graph)))
    check_tree(graph, origin, pubend)
    assert all(branches(graph, origin, pubend, name).reached for name in graph)


@settings(max_examples=tries(300))
@given(any_graphs, pubends)
def test_in_a_divided_graph_the_tree_covers_the_part_of_its_origin(graph: Graph, pubend: str) -> None:
    check_tree(graph, "n0", pubend)


@given(connected_graphs(), pubends)
def test_the_tree_does_not_depend_on_the_order_in_which_the_graph_was_learnt(graph: Graph, pubend: str) -> None:
    backwards = dict(reversed(list(graph.items())))
    for name in graph:
        assert branches(graph, "n0", pubend, name) == branches(backwards, "n0", pubend, name)


def test_the_places_in_a_line() -> None:
    line = {"a": ("b",), "b": ("a", "c"), "c": ("b",)}
    assert branches(line, "a", "p", "a") == Branches(None, {"b": frozenset("bc")}, reached=True)
    assert branches(line, "a", "p", "b") == Branches("a", {"c": frozenset("c")}, reached=True)
    assert branches(line, "a", "p", "c") == Branches("b", {}, reached=True)
    assert branches(line, "b", "p", "b").below == {"a": frozenset("a"), "c": frozenset("c")}


def test_equal_paths_are_shared_between_pubends() -> None:
    ways = Counter(branches(RING, "a", f"p{number}", "c").parent for number in range(50))
    assert set(ways) == {"b", "d"}
    assert min(ways.values()) >= 10


def test_a_longer_way_is_not_taken_for_the_sake_of_sharing() -> None:
    triangle: Graph = {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    for number in range(20):
        assert branches(triangle, "a", f"p{number}", "c").parent == "a"


@pytest.mark.parametrize("place", ["a", "b", "unknown"])
def test_a_pubend_of_an_unknown_broker_reaches_nobody(place: str) -> None:
    assert branches({"a": ("b",), "b": ("a",)}, "gone", "p", place) == Branches(None, {}, reached=False)


def test_a_broker_that_is_cut_off_is_in_no_tree_but_its_own() -> None:
    graph: Graph = {"a": ("b",), "b": ("a",), "c": ()}
    assert not branches(graph, "a", "p", "c").reached
    assert branches(graph, "a", "p", "a").towards("c") is None
    assert branches(graph, "c", "p", "c") == Branches(None, {}, reached=True)
