"""The graph of brokers and links: every broker floods its own links, so all see the same graph.

A link counts when both its ends say that it is up, so a broker that died takes its links with it as soon as its
neighbours notice. A link state carries its broker's incarnation and a sequence number; an older one never replaces a
newer one.

If the members of the overlay are known, an old link state does not make its broker a member: a non-member counts only
while it can be reached, which it is until all brokers have heard that it was added or removed.
"""

from __future__ import annotations

from typing import Final

from penstock.protocol.frames import LinkState, Marks

__all__ = ["BROKERS_MAX", "PUBENDS_MAX", "Graph", "Topology"]

BROKERS_MAX: Final = 10_000
"""Most brokers that one overlay may have; link states of further ones are ignored."""
PUBENDS_MAX: Final = 10_000
"""Most pubends that one overlay may have; link states that bring more are ignored."""

_INCARNATION_MAX: Final = 2**61

Graph = dict[str, tuple[str, ...]]
"""The neighbours of each broker, over links that both ends confirm; sorted."""


class Topology:
    """One broker's copy of the link states of all brokers."""

    def __init__(
        self,
        name: str,
        *,
        incarnation: int,
        pubends: tuple[str, ...],
        best_effort: tuple[str, ...] = (),
        number: int = 0,
        can_move: bool = False,
    ) -> None:
        """With ``can_move``, a later life elsewhere supersedes this one, which contradicts nobody."""
        self._name, self._number = name, number
        self._can_move = can_move
        self.is_superseded = False
        """Whether a later life of this broker runs elsewhere."""
        self._incarnation = self._life = incarnation
        self._sequence = 0
        self._known: Marks = ()
        self._is_asking = False
        self._pubends, self._best_effort = pubends, best_effort
        self._neighbours: dict[str, None] = {}
        self._states: dict[str, LinkState] = {}
        self._members: frozenset[str] = frozenset()
        self._graph: Graph | None = None
        self._origins: dict[str, str] = {}
        self._guaranteed: dict[str, None] | None = None
        self.version = 0
        """Incremented with every change; what was derived from an older version is stale."""
        self._announce()

    @property
    def states(self) -> list[LinkState]:
        """All known link states, for a neighbour that has just connected."""
        return list(self._states.values())

    def neighbour_up(self, name: str) -> LinkState:
        """A link came up; returns what must be flooded."""
        self._neighbours[name] = None
        return self._announce()

    def neighbour_down(self, name: str) -> LinkState:
        """A link went down; returns what must be flooded."""
        self._neighbours.pop(name, None)
        return self._announce()

    def tell_known(self, known: Marks, *, is_asking: bool) -> LinkState:
        """Says what this life knows of the former ones of its pubends; returns what must be flooded."""
        self._known, self._is_asking = known, is_asking
        return self._announce()

    def learn(self, state: LinkState) -> LinkState | None:
        """Learns a link state from a neighbour; returns what must be flooded further, if anything."""
        if state.origin == self._name:
            return self._contradict(state)
        known = self._states.get(state.origin)
        if known is not None and _age(state) <= _age(known):
            return None
        if known is None and len(self._states) >= BROKERS_MAX:
            return None
        if len(state.pubends) > (0 if known is None else len(known.pubends)) and self._count(state) > PUBENDS_MAX:
            return None
        self._states[state.origin] = state
        self._changed()
        return state

    def _count(self, state: LinkState) -> int:
        """How many pubends the overlay would have with this link state."""
        others = sum(len(each.pubends) for each in self._states.values() if each.origin != state.origin)
        return others + len(state.pubends)

    def restrict(self, members: tuple[str, ...]) -> None:
        """Sets the members of the overlay; empty if they are not known."""
        self._members = frozenset(members)
        self._changed()

    def forget(self, name: str) -> None:
        """Forgets a broker that is no member any more and cannot be reached."""
        assert name != self._name
        self._states.pop(name, None)
        self._changed()

    def graph(self) -> Graph:
        """The links that both ends confirm."""
        if self._graph is None:
            graph = {
                name: tuple(
                    sorted(
                        other
                        for other in state.neighbours
                        if other in self._states and name in self._states[other].neighbours
                    )
                )
                for name, state in sorted(self._states.items())
            }
            self._graph = self._without_strangers(graph) if self._members else graph
        return self._graph

    def _without_strangers(self, graph: Graph) -> Graph:
        counted = dict.fromkeys([self._name])
        waiting = [self._name]
        for name in waiting:
            fresh = [other for other in graph[name] if other not in counted]
            counted.update(dict.fromkeys(fresh))
            waiting += fresh
        return {
            name: tuple(other for other in others if other in counted or other in self._members)
            for name, others in graph.items()
            if name in counted or name in self._members
        }

    @property
    def life(self) -> int:
        """The incarnation with which the present life of this broker began."""
        return self._life

    def incarnation_of(self, name: str) -> int:
        """Which life of a broker the last that was heard of it is about; -1 if nothing was."""
        state = self._states.get(name)
        return -1 if state is None else state.incarnation

    def origin_of(self, pubend: str) -> str | None:
        """The broker that hosts a pubend; ``$name`` is the system stream of broker ``name``."""
        if pubend.startswith("$"):
            return pubend[1:] if pubend[1:] in self.graph() else None
        if not self._origins:
            for name in self.graph():
                for each in self._states[name].pubends:
                    self._origins.setdefault(each, name)
        return self._origins.get(pubend)

    def name_of(self, number: int) -> str | None:
        """The broker with this number, as far as this one has heard of it."""
        return next((name for name, state in self._states.items() if state.number == number), None)

    def guaranteed(self) -> dict[str, None]:
        """The pubends of all brokers that guarantee delivery, sorted."""
        if self._guaranteed is None:
            states = [self._states[name] for name in self.graph()]
            names = [pubend for state in states for pubend in state.pubends if pubend not in state.best_effort]
            self._guaranteed = dict.fromkeys(sorted(names))
        return self._guaranteed

    def pubends(self) -> dict[str, tuple[str, bool]]:
        """All pubends of the overlay: the broker of each, and whether it guarantees delivery."""
        found: dict[str, tuple[str, bool]] = {}
        for name in self.graph():
            state = self._states[name]
            for pubend in state.pubends:
                found.setdefault(pubend, (name, pubend not in state.best_effort))
        return found

    def is_guaranteed(self, pubend: str) -> bool:
        """Whether this is a pubend that guarantees delivery."""
        return pubend in self.guaranteed()

    def pubends_within(self, brokers: frozenset[str]) -> list[str]:
        """The pubends that these brokers host, sorted."""
        return sorted(pubend for name in brokers for pubend in self._states[name].pubends)

    def check_invariants(self) -> None:
        """Fails if the copy contradicts itself."""
        graph = self.graph()
        assert all(name in graph[other] for name, others in graph.items() for other in others)
        assert self._states[self._name].neighbours == tuple(sorted(self._neighbours))

    def _announce(self) -> LinkState:
        self._sequence += 1
        neighbours = tuple(sorted(self._neighbours))
        state = LinkState(
            self._name,
            self._incarnation,
            self._sequence,
            neighbours,
            self._pubends,
            self._best_effort,
            self._number,
            self._life,
            self._known,
            self._is_asking,
        )
        self._states[self._name] = state
        self._changed()
        return state

    def _contradict(self, state: LinkState) -> LinkState | None:
        """Announces a newer link state if somebody still spreads one of our earlier life."""
        mine = self._states[self._name]
        if _age(state) <= _age(mine):
            return None
        if self._can_move:
            self.is_superseded = True
            return None
        if state.incarnation >= _INCARNATION_MAX:
            # No later incarnation is possible; nobody whose clock is right gets there.
            return None
        # A later incarnation, not just a later number: others may have link states of the earlier life that we lack.
        self._incarnation, self._sequence = state.incarnation + 1, 0
        return self._announce()

    def _changed(self) -> None:
        self._graph = None
        self._origins, self._guaranteed = {}, None
        self.version += 1


def _age(state: LinkState) -> tuple[int, int]:
    return state.incarnation, state.sequence
