"""The positions of this host's clients: what they are told of the streams, what they acknowledge, what is kept.

About once a second every client hears, in order with its deliveries, up to which tick each stream has been sent to it,
and acknowledges that. So positions move with silence, too. The positions of a client that vanishes are kept for a grace
period, in which it can come back and resume; if it is recognised here, its resumed positions replace the kept ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.broker.accounts import Account
from penstock.broker.host.edge import NEVER, Edge, HostSubscription
from penstock.broker.host.edges import Edges
from penstock.broker.peers import Guest, Peer, PeerKind
from penstock.broker.rooms import Rooms
from penstock.protocol.frames import Acknowledge, Horizons, Settle, Settled

__all__ = ["ClientPositions"]


@dataclass(slots=True, frozen=True, eq=False)
class _Ghost:
    """A client that has vanished."""

    account: Account
    until_ms: int
    client: bytes
    """The identity that recognises it; empty if it cannot be recognised."""
    positions: dict[str, int]
    numbers: dict[int, None]
    """Its subscriptions that it has not resumed here."""
    unknown: int
    """How many of its positions are of pubends that this broker does not know."""


class ClientPositions:
    """The positions of all clients of a host."""

    def __init__(self, rooms: Rooms, edges: Edges) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._pubends = rooms.pubends
        self._accounts, self._topology = rooms.accounts, rooms.topology
        self._edges = edges
        self._ghosts: deque[_Ghost] = deque()
        """Clients that vanished, oldest first."""
        self._recognised: dict[bytes, list[_Ghost]] = {}
        """Vanished clients that will be recognised when they come back, by identity."""
        self._moved: dict[str, dict[str, tuple[int, int]]] = {}

    @staticmethod
    def hold(guest: Guest, positions: Mapping[str, int]) -> None:
        """Holds messages from these ticks on, where a subscription begins, until the client has them."""
        for pubend, tick in positions.items():
            guest.acknowledged[pubend] = min(tick, guest.acknowledged.get(pubend, tick))

    def let_go(self, guest: Guest) -> None:
        """Releases what was held only for a subscription of the client that has ended.

        The client keeps acknowledging a pubend that is known and wanted. It will never hear of any other.
        """
        hosted = self._edges.subscriptions
        own = [hosted[each.key] for each in guest.subscriptions.values() if each.key in hosted]
        plain = [each for each in own if not each.durable]
        if not all(each.pubends for each in plain):
            # At least one wants everything, so all that is known.
            unknown = [pubend for pubend in guest.acknowledged if not self._knows(pubend)]
            stated = {pubend for each in own for pubend in each.positions} if unknown else {}
            released = [pubend for pubend in unknown if pubend not in stated]
        else:
            wanted = {pubend for each in plain for pubend in each.pubends}
            released = [pubend for pubend in guest.acknowledged if pubend not in wanted]
        for pubend in released:
            del guest.acknowledged[pubend]

    def begin(self, peer: Peer, subscription: HostSubscription) -> None:
        """Tells a client where its subscription has begun, in order with its deliveries.

        Earlier announcements for all subscriptions did not include this one, but may still be on their way.
        """
        assert peer.guest is not None
        if not subscription.durable:
            # Not the pubends announced before, which it may have acknowledged since.
            starts = subscription.starts.items()
            self.hold(peer.guest, {each: tick for each, tick in starts if each not in subscription.announced})
        for pubend, tick in subscription.starts.items():
            if pubend not in subscription.announced and pubend in self._edges.edges:
                subscription.announced[pubend] = None
                number = self._edges.edges[pubend].number
                numbers = subscription.number.to_bytes(4)
                present = self._edges.edges[pubend].stream.heard + 1
                if settled := subscription.settled.pop(pubend, ()):
                    # Control overtakes data: it arrives before any message of this subscription.
                    self._connections.say(peer, Settled(subscription.number, number, 0, settled))
                self._connections.carry(peer, Horizons(number, tick, numbers, is_only=True, present=present))
            if pubend in subscription.early and pubend in subscription.opened and pubend in self._edges.edges:
                self._acknowledge_durable(subscription, self._edges.edges[pubend], subscription.early.pop(pubend))

    def acknowledge(self, peer: Peer, frame: Acknowledge) -> None:
        """Takes a client's acknowledgement of everything below these ticks."""
        assert peer.guest is not None
        names = dict(self._pubends.numbered())
        subscription = peer.guest.subscriptions.get(frame.number)
        hosted = self._edges.subscriptions.get(subscription.key) if subscription is not None else None
        for number, tick in frame.positions:
            pubend = names.get(number, "")
            edge = self._edges.edges.get(pubend)
            if frame.number < 0:
                if edge is not None:
                    # No client can have more than was delivered.
                    peer.guest.acknowledged[pubend] = min(tick, edge.stream.horizon)
            elif hosted is not None and hosted.durable and pubend:
                if edge is not None and pubend in hosted.opened:
                    self._acknowledge_durable(hosted, edge, tick)
                else:
                    # Until the pubend has granted the name, the position may be another client's. This one will not
                    # repeat its acknowledgement, so it is kept until then.
                    hosted.early[pubend] = max(tick, hosted.early.get(pubend, 0))

    def settle(self, peer: Peer, frame: Settle) -> tuple[str, HostSubscription, int, tuple[int, ...]] | None:
        """Takes what a client says a durable subscription is done with at one pubend.

        Returns what the pubend is to be told, with the pubend and the subscription; None if it must be said again once
        the subscription has begun there.
        """
        assert peer.guest is not None
        hosted = self._edges.durables.get((peer.connection, frame.number))
        if hosted is None:
            return None
        self.acknowledge(peer, Acknowledge(((frame.pubend, frame.below),), frame.number))
        pubend = dict(self._pubends.numbered()).get(frame.pubend, "")
        edge = self._edges.edges.get(pubend)
        if edge is None or pubend not in hosted.opened:
            return None
        # As for positions: no client can have more than was sent.
        end = max(edge.stream.horizon, hosted.starts.get(pubend, 0))
        ticks = tuple(tick for tick in frame.ticks if tick < end)
        return pubend, hosted, hosted.acknowledged.get(pubend, 0), ticks

    def _acknowledge_durable(self, hosted: HostSubscription, edge: Edge, tick: int) -> None:
        pubend = edge.pubend
        # No client can have more than was sent: by this broker, or by another one before the subscription began here,
        # which may have been ahead of this broker.
        tick = min(tick, max(edge.stream.horizon, hosted.starts.get(pubend, 0)))
        if tick > hosted.acknowledged.get(pubend, -1):
            hosted.acknowledged[pubend] = tick
            pending = hosted.pending.get(pubend)
            while pending and pending[0] < tick:
                pending.popleft()
            self._moved.setdefault(pubend, {})[hosted.durable] = (hosted.ownership, tick)

    def remark(self) -> None:
        """Marks all durable subscriptions as moved: earlier reports may have been lost."""
        for hosted in self._edges.subscriptions.values():
            if hosted.durable:
                # Also where nothing was acknowledged yet: the answer tells whether the name was lost to another owner.
                for pubend, tick in (dict.fromkeys(hosted.opened, 0) | hosted.acknowledged).items():
                    self._moved.setdefault(pubend, {})[hosted.durable] = (hosted.ownership, tick)

    def take_moved(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Returns the durable subscriptions that have moved: by pubend and name, ownership and tick."""
        moved, self._moved = self._moved, {}
        return moved

    def leave(self, guest: Guest, *, is_complete: bool, now_ms: int) -> None:
        """Keeps the positions of a client that has vanished, as it may come back.

        If this broker knows the overlay completely, pubends that it does not know do not exist. Else their positions
        are kept, too, and count towards the client's quota until they are forgotten.
        """
        acknowledged = guest.acknowledged
        unknown = {pubend for pubend in acknowledged if not self._knows(pubend)}
        held = {pubend: tick for pubend, tick in acknowledged.items() if not is_complete or pubend not in unknown}
        if not guest.subscriptions or not held:
            return
        account, client = guest.account, guest.publisher_id
        if account.ghosts >= self._settings.client_connections_max:
            self._forget(next(each for each in self._ghosts if each.account is account))
        until_ms, numbers = now_ms + self._settings.grace_ms, dict.fromkeys(guest.subscriptions)
        ghost = _Ghost(account, until_ms, client, held, numbers, 0 if is_complete else len(unknown))
        account.ghosts += 1
        account.positions += ghost.unknown
        self._ghosts.append(ghost)
        if client:
            self._recognised.setdefault(client, []).append(ghost)

    def go_on(self, guest: Guest, number: int) -> None:
        """A client has resumed a subscription; after the last one, positions that it holds itself are dropped."""
        for ghost in list(self._recognised.get(guest.publisher_id, ())):
            ghost.numbers.pop(number, None)
            if not ghost.numbers:
                for pubend in guest.acknowledged:
                    ghost.positions.pop(pubend, None)
                if not ghost.positions:
                    self._forget(ghost)

    def tell(self) -> None:
        """Tells every client how far each stream has been sent to it."""
        clients = [peer for peer in self._connections.peers.values() if peer.kind is PeerKind.CLIENT and _listens(peer)]
        for edge in self._edges.edges.values():
            behind = self._behind(edge)
            horizon = edge.stream.horizon
            if horizon > edge.told:
                edge.told = horizon
                present = edge.stream.heard + 1
                shared = Horizons(edge.number, horizon, present=present)
                for peer in self._wanting(clients, edge.pubend):
                    numbers = behind.get(peer.connection)
                    frame = shared
                    if numbers is not None:
                        frame = Horizons(edge.number, horizon, numbers, present=present)
                    self._connections.carry(peer, frame)
            for catch_up in edge.catch_ups:
                members = self._by_connection(list(catch_up.members))
                for connection, numbers in members.items():
                    if (peer_behind := self._connections.peers.get(connection)) is not None:
                        present = edge.stream.heard + 1
                        frame = Horizons(edge.number, catch_up.position, numbers, is_only=True, present=present)
                        self._connections.carry(peer_behind, frame)

    def tell_to(self, peer: Peer) -> None:
        """Tells one client how far each stream has been sent: it is about to move, and takes its positions with it."""
        for edge in self._edges.edges.values():
            numbers = self._behind(edge).get(peer.connection, b"")
            present = edge.stream.heard + 1
            self._connections.carry(peer, Horizons(edge.number, edge.stream.horizon, numbers, present=present))

    def of_host(self, *, now_ms: int) -> Iterator[tuple[str, int]]:
        """Yields each pubend with the tick below which all clients have everything."""
        while self._ghosts and self._ghosts[0].until_ms <= now_ms:
            self._forget(self._ghosts[0])
        known = [peer.guest.acknowledged for peer in self._connections.peers.values() if peer.guest and _listens(peer)]
        known += [ghost.positions for ghost in self._ghosts]
        for pubend, edge in self._edges.edges.items():
            yield pubend, min([edge.position(), *(each[pubend] for each in known if pubend in each)])

    def _forget(self, ghost: _Ghost) -> None:
        self._ghosts.remove(ghost)
        ghost.account.ghosts -= 1
        ghost.account.positions -= ghost.unknown
        self._accounts.settle(ghost.account)
        left = [each for each in self._recognised.pop(ghost.client, ()) if each is not ghost]
        if left:
            self._recognised[ghost.client] = left

    def _wanting(self, clients: list[Peer], pubend: str) -> list[Peer]:
        """Those of the clients that want messages of a pubend."""
        if not self._edges.are_narrowed:
            return clients
        return [peer for peer in clients if self._wants(peer, pubend)]

    def _wants(self, peer: Peer, pubend: str) -> bool:
        assert peer.guest is not None
        hosted = self._edges.subscriptions
        keys = [each.key for each in peer.guest.subscriptions.values()]
        return any(hosted[key].wants(pubend) for key in keys if key in hosted)

    def _knows(self, pubend: str) -> bool:
        return pubend in self._edges.edges or self._topology.is_guaranteed(pubend)

    def _behind(self, edge: Edge) -> dict[int, bytes]:
        """The numbers of subscriptions that the shared stream does not serve, by connection."""
        keys = [key for key, tick in edge.later.items() if tick == NEVER]
        return self._by_connection(keys) if keys else {}

    def _by_connection(self, keys: list[int]) -> dict[int, bytes]:
        numbers: dict[int, bytes] = {}
        for key in keys:
            each = self._edges.subscriptions[key]
            numbers[each.connection] = numbers.get(each.connection, b"") + each.number.to_bytes(4)
        return numbers


def _listens(peer: Peer) -> bool:
    return peer.guest is not None and bool(peer.guest.subscriptions)
