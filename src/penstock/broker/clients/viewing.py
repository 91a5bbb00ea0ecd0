"""Shows clients a broker's status: figures, but no names of other clients, unless their rule allows that.

Names of clients, and selectors that would give them away, stand in lists, which are left out; a client sees its own
durable subscriptions and those that its rule shares.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.broker.figures import Figures
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.peers import Guest, Peer
from penstock.broker.rooms import Rooms
from penstock.protocol.frames import StatusReply, StatusRequest
from penstock.protocol.status import BrokerStatus

__all__ = ["View"]


class View:
    """Answers the status requests of one broker's clients."""

    def __init__(self, rooms: Rooms, figures: Figures, guaranteed: Guaranteed) -> None:
        self._settings, self._connections = rooms.settings, rooms.connections
        self._figures, self._guaranteed = figures, guaranteed

    def on_request(self, peer: Peer, frame: StatusRequest, _now_ms: int) -> None:
        """Answers a client; repeats the same answer as long as the client does not read it."""
        assert peer.guest is not None
        unread = peer.outbox.newest_control
        status = unread.status if isinstance(unread, StatusReply) else msgspec.json.encode(self.of(peer.guest))
        self._connections.say(peer, StatusReply(frame.number, status))

    def of(self, guest: Guest) -> BrokerStatus:
        """The status as one client may see it."""
        status = self._figures.status()
        # Without authentication the client could be anybody, so nothing is hidden.
        if self._settings.access.is_open or guest.rule.status:
            return status
        status.guaranteed = self._guaranteed.status(
            lambda name, owner: owner == guest.client or guest.rule.shares(name)
        )
        status.migration.pinned, status.migration.drain.reasons = [], []
        # Homes tell of all durable subscriptions, too.
        status.homes = {}
        status.tracking, status.mechanisms = _without_lists(status.tracking), _without_lists(status.mechanisms)
        return status


def _without_lists(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        shown = {name: _without_lists(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **shown)
    if isinstance(value, dict):
        return {name: _without_lists(each) for name, each in value.items()}
    return [] if isinstance(value, list | tuple) else value
