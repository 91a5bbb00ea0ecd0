"""Moves clients to other brokers ([PADRES] on subscriber migration), for balancing or for a drain.

The client's broker asks it to move. The client opens its subscriptions at the other broker with its positions, and
tells both brokers when they are in force; or it says why it stays. Then guaranteed data queued for it here is
discarded, as it gets that there; best-effort data is still sent, and the connection ends.

Deviations: the paper's subscriber leaves when the session of the two brokers is done; here each client leaves on its
own as soon as it has everything elsewhere, so that nobody waits for the slowest. Nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.broker.due import Due
from penstock.broker.host.edges import Edges
from penstock.broker.peers import Peer, PeerKind, guest_of
from penstock.broker.rooms import Rooms
from penstock.model.errors import MisuseError
from penstock.protocol.frames import DataFrame, Deliver, Horizons, Migrate, Moved, MoveFailed
from penstock.protocol.status import MigrationStatus

__all__ = ["Migrations", "MoveListener"]

_DRAIN_MS: Final = 10_000
"""How long the last data for a client that has moved may take to be sent."""
_LOOK_MS: Final = 50
"""How often to check whether it has been sent."""
_PINS_MAX: Final = 10_000


class MoveListener(Protocol):
    """Learns the outcomes of moves; called in the middle of a turn, so it may only record them."""

    def arrived(self, session: int, client: str) -> None:
        """A client of this session has arrived here, with its subscriptions in force."""

    def left(self, session: int, client: str) -> None:
        """A client of this session has its subscriptions elsewhere now."""

    def failed(self, session: int, client: str, reason: str) -> None:
        """A client of this session stays, or has vanished, or did not answer in time."""


@dataclass(slots=True)
class _Move:
    """A client that was asked to move."""

    session: int
    client: str
    broker: str
    due_ms: int
    """When it counts as staying; if it has moved, when its connection is closed."""
    has_moved: bool = False
    is_given_up: bool = False
    """Whether it did not answer in time; it may still move."""


class Migrations:
    """The moves from and to one broker."""

    def __init__(
        self,
        rooms: Rooms,
        edges: Edges,
        *,
        release: Callable[[Peer, int], None],
        end: Callable[[Peer, str, str, int], None],
        tell: Callable[[Peer], None] = lambda _: None,
    ) -> None:
        """Takes functions that release a client, end its connection, and tell it how far its streams are."""
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._edges = edges
        self._release = release
        self._end = end
        self._tell = tell
        self._moves: dict[int, _Move] = {}
        self._look_ms: int | None = None
        self.due = Due(self.next_deadline)
        self.listeners: list[MoveListener] = []
        self.pins: dict[str, None] = {}
        """Clients that the operator wants to stay where they are."""
        self.counts = {"moves_asked": 0, "moves_left": 0, "moves_arrived": 0, "moves_failed": 0, "moves_unknown": 0}

    # --- requests

    def obstacle(self, connection: int) -> str:
        """Why a client cannot be moved; empty if it can."""
        peer = self._connections.peers.get(connection)
        if peer is None or peer.kind is not PeerKind.CLIENT:
            return f"there is no client on connection {connection}"
        guest, move = guest_of(peer), self._moves.get(connection)
        if move is not None and not move.is_given_up:
            return f"client {guest.client} is already moving"
        if not peer.is_movable:
            return f"client {guest.client} speaks a protocol in which it cannot be moved"
        if guest.is_pinned or guest.client in self.pins:
            return f"client {guest.client} is pinned"
        # Another broker would choose another one.
        return f"client {guest.client} publishes to a pubend that this broker chose" if "" in guest.sources else ""

    def move(self, connection: int, *, broker: str, address: str, session: int, total: int, now_ms: int) -> str:
        """Asks a client to move to another broker; returns why it cannot, or an empty string."""
        if not session > 0 or broker == self._settings.name:
            raise MisuseError(
                f"cannot move a client to {broker} in session {session}: the session must be positive and the target "
                "another broker"
            )
        if obstacle := self.obstacle(connection):
            return obstacle
        peer = self._connections.peers[connection]
        client = guest_of(peer).client
        guest_of(peer).is_leaving = True
        self._moves[connection] = _Move(session, client, broker, now_ms + self._settings.migration_ms)
        self.due.ask()
        self.counts["moves_asked"] += 1
        # First its positions: the other broker need not request again what is known to be silence.
        self._tell(peer)
        self._connections.say(peer, Migrate(session, total, broker, address))
        self._connections.record("move-asked", client=client, to=broker, session=session)
        return ""

    def send_away(self, connection: int, *, broker: str, address: str, session: int) -> None:
        """Tells a client that cannot be moved to end its connection, and where to go."""
        peer = self._connections.peers[connection]
        self._connections.say(peer, Migrate(session, 1, broker, address))
        self._connections.record("sent-away", client=guest_of(peer).client, to=broker)

    def pin(self, client: str) -> None:
        """Pins a client to this broker; raises ``MisuseError`` if too many are pinned."""
        if len(self.pins) >= _PINS_MAX and client not in self.pins:
            raise MisuseError(f"{_PINS_MAX:,} clients are pinned, which is the limit")
        self.pins[client] = None

    def unpin(self, client: str) -> bool:
        """Allows a client to be moved again; returns whether it was pinned."""
        return self.pins.pop(client, "") is None

    # --- what clients say

    def on_moved(self, peer: Peer, frame: Moved, *, now_ms: int) -> None:
        """A client has moved its subscriptions elsewhere, or has arrived from elsewhere."""
        guest, move = guest_of(peer), self._moves.get(peer.connection)
        if move is not None and move.session == frame.session and not move.has_moved:
            self._let_go(peer, move, now_ms)
        elif guest.migration and guest.migration == frame.session:
            guest.migration = 0
            self.counts["moves_arrived"] += 1
            self._connections.record("client-arrived", client=guest.client, session=frame.session)
            for listener in self.listeners:
                listener.arrived(frame.session, guest.client)
        else:
            self.counts["moves_unknown"] += 1

    def on_failed(self, peer: Peer, frame: MoveFailed) -> None:
        """A client stays."""
        move = self._moves.get(peer.connection)
        if move is None or move.session != frame.session or move.has_moved:
            self.counts["moves_unknown"] += 1
            return
        del self._moves[peer.connection]
        guest_of(peer).is_leaving = False
        self._tell_failed(move, frame.reason)

    def forget(self, connection: int) -> None:
        """Forgets a client that is gone."""
        move = self._moves.pop(connection, None)
        if move is not None and not move.has_moved:
            self._tell_failed(move, "its connection was lost")

    # --- time

    def next_deadline(self) -> int | None:
        """When to check the moving clients again."""
        if not self._moves:
            return None
        return min([each.due_ms for each in self._moves.values() if not each.is_given_up] + self._looks(), default=None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Ends connections whose last data has been sent, and gives up on clients that do not answer."""
        for connection, move in list(self._moves.items()):
            is_late, peer = now_ms >= move.due_ms, self._connections.peers[connection]
            if move.has_moved and (is_late or not peer.outbox.data_bytes):
                self._end(peer, "moved", f"client moved to broker {move.broker}", now_ms)
            elif is_late and not move.has_moved:
                self._tell_failed(move, f"did not answer within {self._settings.migration_ms} ms")
                move.is_given_up = True
                guest_of(peer).is_leaving = False
        has_leavers = any(each.has_moved for each in self._moves.values())
        self._look_ms = now_ms + _LOOK_MS if has_leavers else None
        self.due.ask()

    # --- for the operator

    def status(self) -> MigrationStatus:
        """Counts of moves, and the pinned clients."""
        asked = [each for each in self._moves.values() if not each.has_moved and not each.is_given_up]
        leaving = sum(each.has_moved for each in self._moves.values())
        return MigrationStatus(
            moving=len(asked),
            leaving=leaving,
            pinned=sorted(self.pins),
            moves_asked=self.counts["moves_asked"],
            moves_left=self.counts["moves_left"],
            moves_arrived=self.counts["moves_arrived"],
            moves_failed=self.counts["moves_failed"],
            moves_unknown=self.counts["moves_unknown"],
        )

    # --- inside

    def _looks(self) -> list[int]:
        return [] if self._look_ms is None else [self._look_ms]

    def _let_go(self, peer: Peer, move: _Move, now_ms: int) -> None:
        guaranteed = {edge.number for edge in self._edges.edges.values()}
        self._release(peer, now_ms)
        peer.outbox.discard_data(lambda frame: _is_elsewhere(frame, guaranteed))
        move.has_moved, move.due_ms = True, now_ms + _DRAIN_MS
        self._look_ms = now_ms if self._look_ms is None else self._look_ms
        self.due.ask()
        self.counts["moves_left"] += 1
        self._connections.record("client-left", client=move.client, to=move.broker, session=move.session)
        for listener in self.listeners:
            listener.left(move.session, move.client)

    def _tell_failed(self, move: _Move, reason: str) -> None:
        if move.is_given_up:
            # Already reported.
            return
        self.counts["moves_failed"] += 1
        self._connections.record("move-failed", client=move.client, to=move.broker, reason=reason)
        for listener in self.listeners:
            listener.failed(move.session, move.client, reason)


def _is_elsewhere(frame: DataFrame, guaranteed: set[int]) -> bool:
    return isinstance(frame, Horizons) or (isinstance(frame, Deliver) and frame.pubend in guaranteed)
