"""Moves all clients off a broker before it stops, by the migration that balancing uses.

A few clients are asked at a time, each to move to the target with the fewest clients; a client that fails to is asked
to move to the next one. No new clients are admitted meanwhile. Clients that publish, are pinned or can move nowhere
stay; the operator is told of them, and decides. Clients that speak a protocol without moves are told to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.broker.due import Due
from penstock.broker.mechanisms.migration import Migrations
from penstock.broker.peers import Peer, PeerKind
from penstock.broker.rooms import Rooms
from penstock.model.errors import MisuseError
from penstock.protocol.status import DrainStatus

__all__ = ["Draining", "Target"]

_AT_ONCE_MAX: Final = 50
"""Most clients that are moving at a time."""
_TRIES_MAX: Final = 3
"""How often a client is asked before it counts as staying."""
_PAUSE_MS: Final = 500
"""How long until a client is asked again, and how often clients are checked."""
_SHOWN_MAX: Final = 20
"""Most staying clients whose reasons are shown."""


class Target(NamedTuple):
    """Another broker that can take clients."""

    broker: str
    address: str
    clients: int = 0
    """How many clients it has."""


@dataclass(slots=True)
class _Asked:
    """The attempts to move one client."""

    tries: int = 0
    reason: str = ""
    """Why the last attempt failed."""
    due_ms: int = 0


class Draining:
    """The drain of one broker, if it is on, and its progress."""

    def __init__(self, rooms: Rooms, migrations: Migrations) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._migrations = migrations
        migrations.listeners.append(self)
        self._targets: dict[str, Target] = {}
        self._asked: dict[int, _Asked] = {}
        self._sessions: dict[int, tuple[int, str]] = {}
        """Connection and target of each moving client, by session: each has its own."""
        self._last_session = 0
        self._due_ms: int | None = None
        self.due = Due(self.next_deadline)
        self.left_count = 0

    @property
    def is_on(self) -> bool:
        """Whether the broker is draining: it refuses new clients and asks the others to move."""
        return bool(self._targets)

    def start(self, targets: Sequence[Target], *, now_ms: int) -> None:
        """Asks all clients to move to these targets; raises ``MisuseError`` if none is another broker."""
        others = [target for target in targets if target.broker != self._settings.name]
        if not others:
            raise MisuseError(f"there is no other broker that could take the clients of {self._settings.name}")
        self._targets = {target.broker: target for target in others}
        self._asked, self.left_count = {}, 0
        self._last_session = max(self._last_session, now_ms << 10)
        self._connections.record("draining", clients=len(self._clients()), to=", ".join(self._targets))
        self.on_deadline(now_ms=now_ms)

    def stop(self) -> None:
        """Ends the drain: clients are admitted again, and no more are asked to move."""
        self._targets = {}
        self._asked = {}
        self._due_ms = None

    # --- outcomes of moves

    def arrived(self, session: int, client: str) -> None:
        """Ignores arrivals: a drain moves clients away only."""

    def left(self, session: int, client: str) -> None:  # noqa: ARG002 - the session tells who it is
        """A client has moved."""
        if (asked := self._sessions.pop(session, None)) is not None:
            self._asked.pop(asked[0], None)
            self.left_count += 1

    def failed(self, session: int, client: str, reason: str) -> None:
        """A client has not moved."""
        connection, broker = self._sessions.pop(session, (0, ""))
        if (asked := self._asked.get(connection)) is not None and broker in self._targets:
            asked.reason = f"{client}: {reason}"
            target = self._targets[broker]
            self._targets[broker] = target._replace(clients=target.clients - 1)

    # --- time

    def next_deadline(self) -> int | None:
        """When to check the clients again."""
        return self._due_ms

    def on_deadline(self, *, now_ms: int) -> None:
        """Asks clients that were not asked yet, or not often enough."""
        if not self.is_on or (self._due_ms is not None and now_ms < self._due_ms):
            return
        self._due_ms = now_ms + _PAUSE_MS
        self.due.by(self._due_ms)
        clients = self._clients()
        present = {peer.connection for peer in clients}
        self._asked = {connection: each for connection, each in self._asked.items() if connection in present}
        for peer in clients:
            if len(self._sessions) >= _AT_ONCE_MAX:
                break
            self._ask(peer, now_ms)

    def _ask(self, peer: Peer, now_ms: int) -> None:
        connection = peer.connection
        asked = self._asked.get(connection) or _Asked()
        if not peer.is_movable:
            if not asked.tries:
                self._send_away(connection, asked)
            return
        if self._migrations.obstacle(connection) or asked.tries >= _TRIES_MAX or now_ms < asked.due_ms:
            return
        # A different target each time: the one with the fewest clients first, or the first one named.
        choice = sorted(self._targets.values(), key=lambda target: target.clients)
        target = choice[asked.tries % len(choice)]
        self._last_session += 1
        self._sessions[self._last_session] = (connection, target.broker)
        asked.tries, asked.due_ms = asked.tries + 1, now_ms + _PAUSE_MS
        self._asked[connection] = asked
        self._targets[target.broker] = target._replace(clients=target.clients + 1)
        self._migrations.move(
            connection,
            broker=target.broker,
            address=target.address,
            session=self._last_session,
            total=1,
            now_ms=now_ms,
        )

    def _send_away(self, connection: int, asked: _Asked) -> None:
        """Has a client go that cannot be moved: it notices, and finds its own way back."""
        target = min(self._targets.values(), key=lambda each: each.clients)
        self._last_session += 1
        asked.tries = 1
        self._asked[connection] = asked
        self.left_count += 1
        self._migrations.send_away(connection, broker=target.broker, address=target.address, session=self._last_session)

    # --- for the operator

    def status(self) -> DrainStatus:
        """The progress of the drain; done if every client that can move has moved."""
        staying: Counter[str] = Counter()
        reasons: list[str] = []
        going = 0
        for peer in self._clients():
            asked, obstacle = self._asked.get(peer.connection), self._migrations.obstacle(peer.connection)
            if "pinned" in obstacle or "publishes" in obstacle:
                staying["pinned" if "pinned" in obstacle else "publishing"] += 1
                reasons.append(obstacle)
            elif asked is not None and asked.tries >= _TRIES_MAX and not obstacle:
                staying["refusing"] += 1
                reasons.append(asked.reason)
            else:
                going += 1
        return DrainStatus(self.is_on, self.left_count, going, dict(staying), reasons[:_SHOWN_MAX])

    def _clients(self) -> list[Peer]:
        return [peer for peer in self._connections.peers.values() if peer.kind is PeerKind.CLIENT]
