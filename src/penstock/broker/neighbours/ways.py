"""Sends questions and answers along a pubend's tree: up to the pubend, down to the host that asked."""

from __future__ import annotations

from collections.abc import Container

from penstock.broker.peers import Peer
from penstock.broker.rooms import Rooms
from penstock.protocol.frames import ControlFrame

__all__ = ["Ways"]


class Ways:
    """Sends frames about a pubend one hop further; whoever has one for this broker itself handles it instead."""

    def __init__(self, rooms: Rooms, own: Container[str]) -> None:
        self._name = rooms.settings.name
        self._connections, self._router = rooms.connections, rooms.router
        self._own = own

    def up(self, pubend: str, frame: ControlFrame) -> None:
        """Sends a frame towards the pubend; without a path it is lost, and whoever needs the answer asks again."""
        assert pubend not in self._own
        if (parent := self.parent(pubend)) is not None:
            self._connections.say(parent, frame)

    def leads_to(self, pubend: str) -> bool:
        """Whether there is a path to the pubend at the moment, as far as this broker knows."""
        return pubend in self._own or self.parent(pubend) is not None

    def down(self, pubend: str, host: str, frame: ControlFrame) -> None:
        """Sends a frame towards a host; without a path it is lost."""
        assert host != self._name
        if (child := self.child(pubend, host)) is not None:
            self._connections.say(child, frame)

    def parent(self, pubend: str) -> Peer | None:
        """The neighbour on the way up to a pubend."""
        return self._connections.links.get(self._router.place_in(pubend).parent or "")

    def child(self, pubend: str, host: str) -> Peer | None:
        """The neighbour on the way down to a host."""
        return self._connections.links.get(self._router.place_in(pubend).towards(host) or "")
