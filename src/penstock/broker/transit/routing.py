"""Routes messages to this broker's own subscribers, and down the tree to the neighbours that need them.

For each message the filters give the brokers whose clients want it, as a bitmap; each child in the pubend's tree has
the bitmap of the brokers behind it. A message goes to the children whose bitmaps intersect it: two integer operations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from penstock.broker.connections import Connections
from penstock.broker.host.subscribers import Subscribers
from penstock.broker.mechanisms.tracker import Tracker
from penstock.broker.neighbours.filters import Filters
from penstock.broker.neighbours.topology import Topology
from penstock.broker.neighbours.trees import Branches, branches
from penstock.broker.peers import Peer, PeerKind
from penstock.broker.pubends import NUMBERS_MAX, Pubends
from penstock.model.body import decode_attributes
from penstock.model.expiry import expired_places
from penstock.model.values import AttributeValue
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Deliver, Forward, PubendNames

__all__ = ["Router"]

_UNREACHED = Branches(None, {}, reached=False)


class Router:
    """Delivers and forwards messages."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        filters: Filters,
        subscribers: Subscribers,
        pubends: Pubends,
        connections: Connections,
        tracker: Tracker,
    ) -> None:
        self._name = name
        self._topology = topology
        self._filters = filters
        self._subscribers = subscribers
        self._pubends = pubends
        self._connections = connections
        self._tracker = tracker
        self._branches: dict[str, Branches] = {}
        self._children: dict[str, list[tuple[Peer, int]]] = {}
        self._stamp = (-1, -1, -1)
        self._is_full = False
        self.heard: deque[tuple[int, bytes]] = deque()
        """Messages for mechanisms, whose connections have negative numbers."""
        self.carried = 0
        """Messages of clients here that were carried towards pubends elsewhere so far."""
        self.bytes_out = 0
        """Bytes of messages sent to clients so far."""
        self.counts = {
            "published": 0,
            "forwarded": 0,
            "system_forwarded": 0,
            "delivered": 0,
            "expired": 0,
            "off_tree": 0,
            "off_path": 0,
            "repeated": 0,
        }

    def place_in(self, pubend: str) -> Branches:
        """This broker's place in the tree of a pubend, in the graph as it is now."""
        self._refresh()
        found = self._branches.get(pubend)
        if found is None:
            origin = self._topology.origin_of(pubend)
            if origin is None:
                # Not cached: unknown names are unlimited.
                return _UNREACHED
            found = self._branches[pubend] = branches(self._topology.graph(), origin, pubend, self._name)
        return found

    def is_from_host(self, neighbour: str, pubend: str, host: str) -> bool:
        """Whether a host's frame to a pubend may come from this neighbour: it leads to the host in the pubend's tree.

        A frame on another path is forged, or was sent before the path changed: then its sender repeats it.
        """
        found = host in self.place_in(pubend).below.get(neighbour, ())
        self.counts["off_path"] += not found
        return found

    def is_from_pubend(self, neighbour: str, pubend: str) -> bool:
        """Whether a pubend's frame may come from this neighbour: it is the one towards the pubend."""
        found = self.place_in(pubend).parent == neighbour
        self.counts["off_path"] += not found
        return found

    def publish(
        self,
        pubend: str,
        bodies: list[bytes],
        decoded: list[dict[str, AttributeValue]],
        *,
        is_carried: bool = False,
        now_ms: int,
    ) -> None:
        """Sends new messages of one of this broker's own streams; another broker may have carried them here."""
        self.counts["published"] += len(bodies)
        if self._tracker.is_on and not is_carried and not pubend.startswith("$"):
            self._tracker.notes.publish(bodies)
        self._carry(pubend, self._pubends.next_ticks(pubend, len(bodies), now_ms=now_ms), bodies, decoded)

    def forward(self, frame: Forward, neighbour: str) -> None:
        """Forwards messages from a neighbour, which must be the one towards the pubend."""
        if self.place_in(frame.pubend).parent != neighbour:
            self.counts["off_tree"] += len(frame.bodies)
            return
        if any(later <= earlier for earlier, later in pairwise(frame.ticks)):
            raise ProtocolError(f"ticks of {frame.pubend} do not ascend")
        fresh = self._pubends.newer(frame.pubend, frame.ticks)
        self._pubends.remember(lambda name: self._topology.origin_of(name) is not None)
        ticks, bodies = frame.ticks, frame.bodies
        if fresh < len(ticks):
            # After a change of path both paths may carry the same messages for a moment.
            self.counts["repeated"] += len(ticks) - fresh
            ticks, bodies = ticks[len(ticks) - fresh :], bodies[len(bodies) - fresh :]
        if ticks:
            # Decoded first, so that identifiers of malformed bodies are not recorded.
            decoded = [decode_attributes(body) for body in bodies]
            if self._tracker.is_on and not frame.pubend.startswith("$"):
                self._tracker.note_routed(bodies, neighbour)
            self._carry(frame.pubend, ticks, bodies, decoded)

    def _carry(
        self, pubend: str, ticks: list[int], bodies: list[bytes], decoded: list[dict[str, AttributeValue]]
    ) -> None:
        expired = expired_places(bodies, decoded, now_ms=self._tracker.now_ms)
        if expired:
            self.note_expired([bodies[place] for place in expired])
            ticks, bodies, decoded = _without(expired, ticks, bodies, decoded)
        number = self.introduce(pubend, is_guaranteed=False)
        if number is not None:
            self._deliver(pubend, number, ticks, bodies, decoded)
        if self._connections.links and (children := self._children_in(pubend)):
            self._pass_on(pubend, ticks, bodies, decoded, children)

    def note_expired(self, bodies: list[bytes]) -> None:
        """Counts and records messages that are dropped, since they have expired."""
        self.counts["expired"] += len(bodies)
        if self._tracker.is_on:
            self._tracker.notes.expire(bodies)

    def _deliver(
        self,
        pubend: str,
        number: int,
        ticks: list[int],
        bodies: list[bytes],
        decoded: list[dict[str, AttributeValue]],
    ) -> None:
        system = pubend.startswith("$")
        for frame, connections in self._subscribers.deliveries(
            number, ticks, bodies, decoded, name=pubend, system=system
        ):
            self.deliver(frame, connections)

    def deliver(self, frame: Deliver, connections: Sequence[int]) -> None:
        """Delivers messages to clients and mechanisms."""
        if self._tracker.is_on:
            self._tracker.notes.deliver(frame.bodies, frame.numbers, connections)
        if min(connections) < 0:
            for connection in connections:
                if connection < 0:
                    self.heard.extend((connection, body) for body in frame.bodies)
            connections = [connection for connection in connections if connection >= 0]
        delivered = self._connections.carry_to(connections, frame)
        self.counts["delivered"] += delivered * len(frame.bodies)
        self.bytes_out += delivered * frame.size

    def _pass_on(
        self,
        pubend: str,
        ticks: list[int],
        bodies: list[bytes],
        decoded: list[dict[str, AttributeValue]],
        children: list[tuple[Peer, int]],
    ) -> None:
        hosts_wanting = self._filters.hosts_wanting
        wanted = [hosts_wanting(attributes, pubend) for attributes in decoded]
        frames: dict[tuple[int, ...], Forward] = {}
        for peer, mask in children:
            chosen = tuple([place for place, hosts in enumerate(wanted) if hosts & mask])
            if not chosen:
                continue
            frame = frames.get(chosen)
            if frame is None:
                frame = frames[chosen] = Forward(
                    pubend, [ticks[place] for place in chosen], [bodies[place] for place in chosen]
                )
            # Messages of mechanisms go ahead of data, so that busy links do not delay them.
            if pubend.startswith("$"):
                self._connections.carry_first(peer, frame)
                self.counts["system_forwarded"] += len(chosen)
            elif self._connections.carry(peer, frame):
                self.counts["forwarded"] += len(chosen)

    def _children_in(self, pubend: str) -> list[tuple[Peer, int]]:
        """The links further down the tree, each with the bitmap of the brokers behind it."""
        place = self.place_in(pubend)
        found = self._children.get(pubend)
        if found is None:
            links = self._connections.links
            masks = [
                (links[child], self._filters.mask_of(behind)) for child, behind in place.below.items() if child in links
            ]
            found = self._children[pubend] = [each for each in masks if each[1]]
        return found

    def introduce(self, pubend: str, *, is_guaranteed: bool) -> int | None:
        """Returns this broker's number for a pubend, and tells clients of a new one. None if all numbers are in use."""
        number, is_new = self._pubends.number_of(pubend, is_guaranteed=is_guaranteed)
        if number is None:
            if not self._is_full:
                self._is_full = True
                problem = f"its clients know of {NUMBERS_MAX:,} pubends of a service class, which is the limit"
                self._connections.record("pubends-full", pubend=pubend, reason=problem)
            return None
        if is_new:
            for peer in self._connections.peers.values():
                if peer.kind is PeerKind.CLIENT:
                    self._connections.say(peer, PubendNames(((number, pubend),)))
        return number

    def _refresh(self) -> None:
        stamp = (self._topology.version, self._filters.hosts_version, self._connections.links_version)
        if stamp != self._stamp:
            self._stamp = stamp
            self._branches, self._children = {}, {}


def _without(
    places: list[int], ticks: list[int], bodies: list[bytes], decoded: list[dict[str, AttributeValue]]
) -> tuple[list[int], list[bytes], list[dict[str, AttributeValue]]]:
    """All messages but those at these places."""
    gone = set(places)
    kept = [place for place in range(len(ticks)) if place not in gone]
    return [ticks[place] for place in kept], [bodies[place] for place in kept], [decoded[place] for place in kept]
