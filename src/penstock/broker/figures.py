"""How a broker is, in figures: for the operator, and for clients that ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.broker.peers import PeerKind
from penstock.broker.rooms import Rooms

__all__ = ["Figures"]


class Figures:
    """Gathers the figures of one broker's parts."""

    def __init__(
        self,
        rooms: Rooms,
        *,
        incarnation: int,
        counts: Sequence[Callable[[], Mapping[str, int]]],
        parts: Mapping[str, Callable[[], object]],
    ) -> None:
        """Ask these for their counts, and those for all they have to say, by what it is called."""
        self._rooms, self._incarnation = rooms, incarnation
        self._counts, self._parts = counts, parts

    def status(self) -> dict[str, Any]:
        """All figures, as they are now."""
        rooms = self._rooms
        settings, connections = rooms.settings, rooms.connections
        kinds = [peer.kind for peer in connections.peers.values()]
        return {
            "broker": settings.name,
            "overlay": settings.overlay,
            "incarnation": self._incarnation,
            "pubends": list(settings.pubends),
            "links": sorted(connections.links),
            "brokers": sorted(rooms.topology.graph()),
            "clients": kinds.count(PeerKind.CLIENT),
            "strangers": kinds.count(PeerKind.STRANGER),
            "subscriptions": len(rooms.subscribers),
            "filters": rooms.filters.status(),
            "outbox_bytes": connections.waiting_bytes(),
            "outboxes": {name: peer.outbox.data_bytes for name, peer in sorted(connections.links.items())},
            "dropped": dict(connections.dropped),
            "counts": {name: count for each in self._counts for name, count in each().items()},
            **{name: part() for name, part in self._parts.items()},
        }
