"""All connections of a broker: queueing on them, closing them, and noticing which of them have fallen silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.broker.effects import Close, Effect, Record, Wake
from penstock.broker.outbox import Outbox, Tally
from penstock.broker.peers import Farewell, Peer, PeerKind
from penstock.broker.settings import BrokerSettings
from penstock.protocol.control import shortened
from penstock.protocol.frames import ControlFrame, DataFrame, Goodbye, Heartbeat

__all__ = ["PROGRESS_BYTES", "Connections"]

PROGRESS_BYTES: Final = 32 * 1024
"""Bytes that must move within ``silent_ms`` while a peer transfers something large: 52 kbit/s by default.

No heartbeat can be sent in the middle of a frame, and one of 8 MiB takes longer than ``silent_ms`` on most lines.
Slower progress counts as silence, so that nobody can hold an unfinished frame for long at no cost.
"""


class Connections:
    """The peers of one broker by connection, and its links by neighbour."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self.peers: dict[int, Peer] = {}
        self.links: dict[str, Peer] = {}
        self.links_version = 0
        """Incremented when a link comes or goes."""
        self._closed: dict[int, Outbox] = {}
        """Outboxes of recently closed connections: the shell still has to drain them."""
        self._tally = Tally()
        self._woken: dict[int, Wake] = {}
        self._effects: list[Effect] = []
        self._overflowed: dict[int, Peer] = {}
        self.dropped = {"link": 0, "client": 0}
        """Data frames dropped at the bound of an outbox."""

    def open(self, connection: int, *, dialled: str, certificate: str, now_ms: int) -> Peer:
        """Registers a new transport; nothing is known yet about the other end."""
        assert connection not in self.peers
        settings = self._settings
        outbox = Outbox(
            control_bytes_max=settings.control_outbox_bytes,
            data_bytes_max=settings.link_outbox_bytes if dialled else settings.client_outbox_bytes,
            tally=self._tally,
        )
        peer = Peer(connection, outbox, now_ms, now_ms, took_ms=now_ms, dialled=dialled, certificate=certificate)
        self.peers[connection] = peer
        return peer

    def knows(self, connection: int) -> bool:
        """Whether the other end of a connection has authenticated."""
        peer = self.peers.get(connection)
        return peer is not None and peer.kind is not PeerKind.STRANGER

    def client_of(self, connection: int) -> str:
        """The name of the client at the other end of a connection; empty if it is gone."""
        peer = self.peers.get(connection)
        return peer.name if peer is not None else ""

    def outbox(self, connection: int) -> Outbox:
        """The frames queued for a connection, also for one that is being closed."""
        peer = self.peers.get(connection)
        return peer.outbox if peer is not None else self._closed[connection]

    def link_up(self, peer: Peer) -> None:
        """Registers a peer that has proved to be a neighbour as a link."""
        peer.kind = PeerKind.LINK
        self.links[peer.name] = peer
        self.links_version += 1

    def forget(self, peer: Peer) -> None:
        """Removes a connection; discards what is queued for it, unless the shell still has to send it."""
        self.peers.pop(peer.connection, None)
        if peer.connection not in self._closed:
            peer.outbox.clear()
        if self.links.get(peer.name) is peer:
            del self.links[peer.name]
            self.links_version += 1

    def say(self, peer: Peer, frame: ControlFrame) -> None:
        """Queues a control frame."""
        peer.said = True
        self._woken[peer.connection] = peer.wake
        if not peer.outbox.push_control(frame):
            self._overflowed[peer.connection] = peer

    def carry(self, peer: Peer, frame: DataFrame) -> bool:
        """Queues a data frame; False if it was dropped."""
        peer.said = True
        self._woken[peer.connection] = peer.wake
        if peer.outbox.push_data(frame):
            return True
        self._drop(peer)
        return False

    def carry_to(self, connections: Sequence[int], frame: DataFrame) -> int:
        """Queues a data frame for many connections; returns how many did not drop it."""
        peers = self.peers
        woken = self._woken
        dropped = 0
        # ``carry``, inlined: this is where a fan-out spends its time.
        for connection in connections:
            peer = peers[connection]
            peer.said = True
            woken[connection] = peer.wake
            if not peer.outbox.push_data(frame):
                self._drop(peer)
                dropped += 1
        return len(connections) - dropped

    def _drop(self, peer: Peer) -> None:
        if peer.kind is PeerKind.LINK:
            self.dropped["link"] += 1
        else:
            self.dropped["client"] += 1
            self._overflowed[peer.connection] = peer

    def carry_first(self, peer: Peer, frame: DataFrame) -> None:
        """Queues one of the system's own data frames ahead of other data."""
        peer.said = True
        self._woken[peer.connection] = peer.wake
        # The control lane takes any frame; its type names those that usually belong there.
        if not peer.outbox.push_control(frame):  # type: ignore[arg-type]
            self._overflowed[peer.connection] = peer

    def take_overflowed(self) -> list[Peer]:
        """Returns the peers that do not read what they are sent, and must be disconnected."""
        if not self._overflowed:
            return []
        overflowed, self._overflowed = list(self._overflowed.values()), {}
        return [peer for peer in overflowed if peer.connection in self.peers]

    def close(self, peer: Peer, code: str, reason: str) -> None:
        """Says goodbye and closes the connection; the shell sends what is queued first."""
        if peer.connection not in self.peers:
            return
        if code == "slow":
            # It did not read what it was sent: it will not read the rest either.
            peer.outbox.clear()
        peer.outbox.push_control(Goodbye(code, shortened(reason)))
        self._keep_closed(peer)
        self._effects.append(Close(peer.connection, code, reason))
        self.record("closed", peer=peer.name or str(peer.connection), code=code, reason=reason)

    def close_quietly(self, peer: Peer) -> None:
        """Closes a connection whose other end has said goodbye."""
        self._effects.append(Close(peer.connection, "goodbye", "the other end said goodbye"))
        self._keep_closed(peer)

    def _keep_closed(self, peer: Peer) -> None:
        # Detached: a peer that never takes its last frames must not hold publishers back for ever.
        peer.outbox.detach()
        self._closed[peer.connection] = peer.outbox

    def record(self, event: str, **fields: str | int) -> None:
        """Records an event for the operator."""
        self._effects.append(Record(event, tuple(fields.items())))

    def add_effect(self, effect: Effect) -> None:
        """Adds an effect for the shell."""
        self._effects.append(effect)

    def waiting_bytes(self) -> int:
        """The data queued in all outboxes together."""
        return self._tally.data_bytes

    def progress(self, connection: int, unfinished_bytes: int, *, now_ms: int) -> None:
        """Notes how much of a frame has arrived: enough of it since the last time counts as hearing from the peer."""
        peer = self.peers.get(connection)
        if peer is None:
            return
        if unfinished_bytes < peer.unfinished_bytes:
            # A new frame.
            peer.unfinished_bytes = 0
        if unfinished_bytes - peer.unfinished_bytes >= PROGRESS_BYTES:
            peer.unfinished_bytes, peer.heard_ms = unfinished_bytes, now_ms

    def beat(self, *, now_ms: int) -> list[Peer]:
        """Sends heartbeats where nothing else was sent; returns the peers not heard from for too long."""
        # A shell that is still draining one of these holds a reference of its own.
        self._closed.clear()
        silent = []
        for peer in self.peers.values():
            # A stranger has to authenticate: other frames do not keep it connected.
            is_stranger = peer.kind is PeerKind.STRANGER
            limit_ms = self._settings.handshake_ms if is_stranger else self._settings.silent_ms
            if now_ms - (peer.opened_ms if is_stranger else peer.heard_ms) >= limit_ms:
                silent.append(peer)
            elif not is_stranger and not peer.said and not peer.outbox:
                self.say(peer, Heartbeat(now_ms))
            peer.said = False
            _note_taken(peer, now_ms)
        return silent

    def too_slow(self, *, now_ms: int) -> list[Farewell]:
        """Returns peers to disconnect since what is queued for them leaves too little room; call it after ``beat``.

        An outbox below its own bound concerns nobody else until many of them add up: those of one client over its
        quota, or all of them, so that publishers wait. Then no new data comes that could overflow any of them, and a
        peer that reads nothing would stop everybody for ever.
        """
        return self._over_quota() or self._stuck(now_ms)

    def _over_quota(self) -> list[Farewell]:
        """For each client over its quota, the connection with most bytes queued."""
        waiting: dict[str, list[Peer]] = {}
        for peer in self.peers.values():
            if peer.outbox and peer.kind is PeerKind.CLIENT:
                waiting.setdefault(peer.name, []).append(peer)
        limit = self._settings.client_waiting_bytes_max
        endings = []
        for name, peers in waiting.items():
            if sum(map(_waiting_bytes, peers)) > limit:
                reason = f"client {name} has left more than {limit:,} bytes unread"
                endings.append(Farewell(max(peers, key=_waiting_bytes), "slow", reason))
        return endings

    def _stuck(self, now_ms: int) -> list[Farewell]:
        """While publishers wait for room: of the peers that read nothing, the one with most bytes queued."""
        if self.waiting_bytes() <= self._settings.held_back_bytes:
            return []
        stuck = [peer for peer in self.peers.values() if now_ms - peer.took_ms >= self._settings.silent_ms]
        if not stuck:
            return []
        return [
            Farewell(
                max(stuck, key=_waiting_bytes),
                "slow",
                "does not read its data, and publishers are blocked until it does",
            )
        ]

    def take_effects(self) -> list[Effect]:
        """Returns the effects for the shell: wakes first, then the others."""
        peers = self.peers
        effects: list[Effect] = [wake for connection, wake in self._woken.items() if connection in peers]
        if self._effects:
            effects += self._effects
            self._effects = []
        self._woken = {}
        return effects


def _note_taken(peer: Peer, now_ms: int) -> None:
    """Notes whether a peer drains its outbox: all of it, or enough within the time that counts as silence."""
    outbox = peer.outbox
    if not outbox.data_bytes or outbox.taken_bytes >= peer.taking_bytes:
        peer.took_ms = now_ms
        peer.taking_bytes = outbox.taken_bytes + min(outbox.data_bytes, PROGRESS_BYTES)


def _waiting_bytes(peer: Peer) -> int:
    return peer.outbox.data_bytes + peer.outbox.control_bytes
