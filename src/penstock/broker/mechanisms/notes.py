"""Buffers what has happened to messages at this broker until it is recorded ([Tracking] section 3.2).

Noting is on the path of every message, where nothing that it needs is in the processor's caches: so it only keeps
identifiers, and the connections that messages went to. Subscribers are looked up for many messages at once, at the
latest when connections or subscriptions change.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from penstock.model.message_id import MESSAGE_ID_BYTES
from penstock.tracking.hashing import EXPIRED_KEY, subscriber_key

__all__ = ["Notes"]

_GROUPS_MAX: Final = 65_536
"""Most groups of subscriptions whose subscribers are cached."""


class Notes:
    """Concatenated identifiers, never messages, which may be large."""

    def __init__(self) -> None:
        self.published, self.delivered = bytearray(), bytearray()
        self.routed: dict[str, bytearray] = {}
        """Identifiers of messages from neighbours, by neighbour."""
        self._numbers: list[bytes] = []
        self._connections: list[int] = []
        """For each delivered message, the numbers of its subscriptions, and the connection it went to."""
        self.settled, self._keys = bytearray(), array("Q")
        """Deliveries whose subscriber was looked up, with the subscriber's key of each."""
        self._clients: dict[int, tuple[int]] = {}
        """Keys of the clients' names, by connection."""
        self._plain: dict[int, tuple[int]] = {}
        """Keys of the names of clients without durable subscriptions, by connection."""
        self._durables: dict[tuple[int, bytes], int] = {}
        """Keys of durable names, by connection and the client's number of the subscription."""
        self._groups: dict[tuple[int, bytes], tuple[int, ...]] = {}
        """Cached keys of a message's subscribers, by connection and the numbers of its subscriptions."""

    # --- on the path of messages

    def publish(self, bodies: Sequence[bytes]) -> None:
        """Notes messages of local publishers."""
        self.published += b"".join([body[:MESSAGE_ID_BYTES] for body in bodies])

    def route(self, bodies: Sequence[bytes], neighbour: str) -> int:
        """Notes messages from a neighbour; returns how many of this neighbour's are noted now."""
        routed = self.routed.get(neighbour)
        if routed is None:
            routed = self.routed[neighbour] = bytearray()
        for body in bodies:
            routed += body[:MESSAGE_ID_BYTES]
        return len(routed) // MESSAGE_ID_BYTES

    def deliver(self, bodies: Sequence[bytes], numbers: Sequence[bytes], connections: Sequence[int]) -> None:
        """Notes the delivery of messages, each for the subscriptions with its numbers, to clients."""
        if len(bodies) == len(connections) == 1:
            self.delivered += bodies[0][:MESSAGE_ID_BYTES]
            self._numbers.append(numbers[0])
            self._connections.append(connections[0])
            return
        ids = b"".join([body[:MESSAGE_ID_BYTES] for body in bodies])
        self.delivered += ids * len(connections)
        for connection in connections:
            self._numbers += numbers
            self._connections += [connection] * len(bodies)

    def expire(self, bodies: Sequence[bytes]) -> None:
        """Notes messages that were not delivered, or not forwarded, since they had expired."""
        for body in bodies:
            self.settled += body[:MESSAGE_ID_BYTES]
            self._keys.append(EXPIRED_KEY)

    # --- clients and subscriptions

    def connect(self, connection: int, client: str) -> None:
        """A client was admitted."""
        self._settle()
        self._clients[connection] = self._plain[connection] = (subscriber_key(client),)

    def leave(self, connection: int) -> None:
        """A client is gone."""
        self._settle()
        self._clients.pop(connection, None)
        self._plain.pop(connection, None)

    def attach(self, connection: int, number: int, durable: str | None) -> None:
        """A subscription has begun: under a durable name, or the client's own."""
        self._settle()
        if durable is not None:
            self._durables[connection, number.to_bytes(4)] = subscriber_key(durable)
            self._plain.pop(connection, None)

    def detach(self, connection: int, number: int) -> None:
        """A subscription has ended."""
        self._settle()
        self._durables.pop((connection, number.to_bytes(4)), None)

    # --- what is to be recorded

    def take_published(self) -> bytes:
        """Takes the identifiers of published messages."""
        taken, self.published = bytes(self.published), bytearray()
        return taken

    def take_routed(self) -> dict[str, bytearray]:
        """Takes the identifiers of messages from neighbours, by neighbour."""
        taken, self.routed = self.routed, {}
        return taken

    def take_delivered(self) -> tuple[bytes, array[int]]:
        """Takes the identifiers of delivered messages, and the subscriber's key of each."""
        self._resolve()
        taken = bytes(self.settled), self._keys
        self.settled, self._keys = bytearray(), array("Q")
        return taken

    def _settle(self) -> None:
        """Looks up the subscribers of noted deliveries, before connections or subscriptions change."""
        self._resolve()
        self._groups = {}

    def _resolve(self) -> None:
        if not self._numbers:
            return
        plain, known = self._plain.get, self._groups.get
        pairs = zip(self._connections, self._numbers, strict=True)
        found = [plain(pair[0]) or known(pair) or self._group(*pair) for pair in pairs]
        ids = np.frombuffer(bytes(self.delivered), dtype=f"V{MESSAGE_ID_BYTES}")
        self.settled += np.repeat(ids, [*map(len, found)]).tobytes()
        self._keys.extend([*chain.from_iterable(found)])
        self.delivered = bytearray()
        self._numbers = []
        self._connections = []

    def _group(self, connection: int, numbers: bytes) -> tuple[int, ...]:
        """The subscribers that get a message on one connection: durable names, and the client's own for all others."""
        own = self._clients.get(connection)
        if own is None:
            # A mechanism of the broker itself.
            return ()
        named = [self._durables.get((connection, numbers[at : at + 4]), *own) for at in range(0, len(numbers), 4)]
        if len(self._groups) >= _GROUPS_MAX:
            self._groups.clear()
        group = self._groups[connection, numbers] = tuple(dict.fromkeys(named))
        return group
