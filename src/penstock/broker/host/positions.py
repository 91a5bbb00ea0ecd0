"""How far this host's clients are: what they are told of the streams, what they acknowledge, what is kept for them.

About once a second every client hears, in order with its deliveries, up to which tick each stream has been sent to it,
and acknowledges that. So positions move with silence, too. A client that vanishes keeps its positions for a grace
period, in which it can come back and go on; here it is recognised, and counts where it goes on.
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
from penstock.protocol.frames import Acknowledge, Horizons

__all__ = ["ClientPositions"]


@dataclass(slots=True, frozen=True, eq=False)
class _Ghost:
    """A client that has vanished."""

    account: Account
    until_ms: int
    client: bytes
    """By which it is recognised; empty if it is not."""
    positions: dict[str, int]
    numbers: dict[int, None]
    """Its subscriptions with which it has not gone on here."""
    unknown: int
    """How many of its positions are of pubends that nobody here has heard of."""


class ClientPositions:
    """The positions of all clients of a host."""

    def __init__(self, rooms: Rooms, edges: Edges) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._pubends = rooms.pubends
        self._accounts, self._topology = rooms.accounts, rooms.topology
        self._edges = edges
        self._ghosts: deque[_Ghost] = deque()
        """Those who vanished, the first first."""
        self._recognised: dict[bytes, list[_Ghost]] = {}
        """Those of them that will be recognised when they come back."""
        self._moved: dict[str, dict[str, tuple[int, int]]] = {}

    @staticmethod
    def hold(guest: Guest, positions: Mapping[str, int]) -> None:
        """A subscription of the client begins at these ticks: nothing from there on may go before it has it."""
        for pubend, tick in positions.items():
            guest.acknowledged[pubend] = min(tick, guest.acknowledged.get(pubend, tick))

    def let_go(self, guest: Guest) -> None:
        """A subscription of the client has ended: nothing is held any more that was held for it alone.

        Where a pubend is known, the client goes on acknowledging it. Of one that is not, it will never hear.
        """
        hosted, own = self._edges.subscriptions, guest.subscriptions
        if all(hosted[each.key].durable for each in own.values() if each.key in hosted):
            guest.acknowledged.clear()
            return
        unknown = [pubend for pubend in guest.acknowledged if not self._knows(pubend)]
        if unknown:
            wanted = {pubend for each in own.values() if each.key in hosted for pubend in hosted[each.key].positions}
            for pubend in unknown:
                if pubend not in wanted:
                    del guest.acknowledged[pubend]

    def begin(self, peer: Peer, subscription: HostSubscription) -> None:
        """A subscription has begun on some pubends: the client is told in order with its deliveries.

        What was said of all subscriptions before that was not meant for this one, but may still be on its way.
        """
        assert peer.guest is not None
        if not subscription.durable:
            # Not what it began before, and has acknowledged since.
            starts = subscription.starts.items()
            self.hold(peer.guest, {each: tick for each, tick in starts if each not in subscription.announced})
        for pubend, tick in subscription.starts.items():
            if pubend not in subscription.announced and pubend in self._edges.edges:
                subscription.announced[pubend] = None
                number = self._edges.edges[pubend].number
                numbers = subscription.number.to_bytes(4)
                present = self._edges.edges[pubend].stream.heard + 1
                self._connections.carry(peer, Horizons(number, tick, numbers, is_only=True, present=present))
            if pubend in subscription.early and pubend in subscription.opened and pubend in self._edges.edges:
                self._acknowledge_durable(subscription, self._edges.edges[pubend], subscription.early.pop(pubend))

    def acknowledge(self, peer: Peer, frame: Acknowledge) -> None:
        """A client has everything below these ticks."""
        assert peer.guest is not None
        names = dict(self._pubends.numbered())
        subscription = peer.guest.subscriptions.get(frame.number)
        hosted = self._edges.subscriptions.get(subscription.key) if subscription is not None else None
        for number, tick in frame.positions:
            pubend = names.get(number, "")
            edge = self._edges.edges.get(pubend)
            if frame.number < 0:
                if edge is not None:
                    # Nobody can have more than there is.
                    peer.guest.acknowledged[pubend] = min(tick, edge.stream.horizon)
            elif hosted is not None and hosted.durable and pubend:
                if edge is not None and pubend in hosted.opened:
                    self._acknowledge_durable(hosted, edge, tick)
                else:
                    # Until the pubend has given it the name, the position may be somebody else's. The client will not
                    # say it again, so it is kept until then.
                    hosted.early[pubend] = max(tick, hosted.early.get(pubend, 0))

    def _acknowledge_durable(self, hosted: HostSubscription, edge: Edge, tick: int) -> None:
        pubend = edge.pubend
        # Nobody can have more than was sent: by this broker, or by another one before the subscription began here,
        # which may be ahead of all that has come here yet.
        tick = min(tick, max(edge.stream.horizon, hosted.starts.get(pubend, 0)))
        if tick > hosted.acknowledged.get(pubend, -1):
            hosted.acknowledged[pubend] = tick
            pending = hosted.pending.get(pubend)
            while pending and pending[0] < tick:
                pending.popleft()
            self._moved.setdefault(pubend, {})[hosted.durable] = (hosted.ownership, tick)

    def remark(self) -> None:
        """Counts all durable subscriptions as moved: what was reported of them may have been lost."""
        for hosted in self._edges.subscriptions.values():
            if hosted.durable:
                # Also where nothing was acknowledged yet: who does not own the name any more learns it from the answer.
                for pubend, tick in (dict.fromkeys(hosted.opened, 0) | hosted.acknowledged).items():
                    self._moved.setdefault(pubend, {})[hosted.durable] = (hosted.ownership, tick)

    def take_moved(self) -> dict[str, dict[str, tuple[int, int]]]:
        """The durable subscriptions that have moved: by pubend and name, ownership and tick."""
        moved, self._moved = self._moved, {}
        return moved

    def leave(self, guest: Guest, *, is_complete: bool, now_ms: int) -> None:
        """A client has vanished: it may come back.

        If this broker knows the overlay completely, pubends that it does not know do not exist. Else their positions
        are kept, too, and count for the client until they are forgotten.
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
        """A client has come back for a subscription; with the last, what it holds itself need not be kept for it."""
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
                for peer in clients:
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
        """Tells one client that: it is about to move, and takes its positions with it."""
        for edge in self._edges.edges.values():
            numbers = self._behind(edge).get(peer.connection, b"")
            present = edge.stream.heard + 1
            self._connections.carry(peer, Horizons(edge.number, edge.stream.horizon, numbers, present=present))

    def of_host(self, *, now_ms: int) -> Iterator[tuple[str, int]]:
        """Each pubend with the tick below which all clients have everything."""
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

    def _knows(self, pubend: str) -> bool:
        return pubend in self._edges.edges or self._topology.is_guaranteed(pubend)

    def _behind(self, edge: Edge) -> dict[int, bytes]:
        """The subscriptions for which the shared stream is not, by connection."""
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
