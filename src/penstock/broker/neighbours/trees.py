"""Computes the spanning tree of each pubend: the paths its messages take through any connected graph.

All brokers compute the same tree from the same graph: shortest paths from the broker that hosts the pubend. Among
equally short paths the pubend's own name decides, so that pubends spread over them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from hashlib import blake2b

from penstock.broker.neighbours.topology import Graph

__all__ = ["Branches", "branches"]


@dataclass(slots=True, frozen=True)
class Branches:
    """One broker's place in a tree."""

    parent: str | None
    """The neighbour towards the pubend; None at the pubend itself and where the pubend cannot be reached."""
    below: dict[str, frozenset[str]]
    """The brokers behind each neighbour further down the tree."""
    reached: bool
    """Whether the tree includes this broker."""

    def towards(self, broker: str) -> str | None:
        """The child through which a broker is reached."""
        return next((child for child, brokers in self.below.items() if broker in brokers), None)


def branches(graph: Graph, origin: str, pubend: str, place: str) -> Branches:
    """Computes the place of a broker in the tree of a pubend."""
    parents = _parents(graph, origin, pubend)
    if place not in parents:
        return Branches(None, {}, reached=False)
    children: dict[str, list[str]] = {}
    for node, parent in parents.items():
        if parent is not None:
            children.setdefault(parent, []).append(node)
    below = {child: frozenset(_descendants(child, children)) for child in sorted(children.get(place, ()))}
    return Branches(parents[place], below, reached=True)


def _parents(graph: Graph, origin: str, pubend: str) -> dict[str, str | None]:
    """The parent of every broker that can be reached from the origin."""
    if origin not in graph:
        return {}
    distances = {origin: 0}
    parents: dict[str, str | None] = {origin: None}
    waiting = deque([origin])
    while waiting:
        node = waiting.popleft()
        for other in graph[node]:
            if other not in distances:
                distances[other] = distances[node] + 1
                parents[other] = node
                waiting.append(other)
            elif distances[other] == distances[node] + 1 and _prefers(pubend, other, node, parents[other]):
                parents[other] = node
    return parents


def _prefers(pubend: str, node: str, candidate: str, parent: str | None) -> bool:
    return _lot(pubend, node, candidate) < _lot(pubend, node, parent or "")


def _lot(pubend: str, node: str, parent: str) -> tuple[int, str]:
    # Not a checksum: similar names have similar ones, and similar pubends would take the same path.
    return int.from_bytes(blake2b(f"{pubend}|{node}|{parent}".encode(), digest_size=8).digest()), parent


def _descendants(node: str, children: dict[str, list[str]]) -> list[str]:
    found = [node]
    for each in found:
        found.extend(children.get(each, ()))
    return found
