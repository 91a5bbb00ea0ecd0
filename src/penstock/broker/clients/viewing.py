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
from penstock.protocol.status import BrokerStatus, GuaranteedStatus

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
        _hide(status)
        for candidacy in status.candidacies:
            candidacy.held_back = _reason(candidacy.held_back)
            candidacy.problem = _reason(candidacy.problem)
        for home in status.homes.values():
            # It has no clients of its own, and tells of the durable subscriptions of all.
            _hide_names(home.guaranteed)
            _hide(home)
        return status


def _hide(status: BrokerStatus) -> None:
    """Leaves out what lists tell of clients."""
    status.migration.pinned, status.migration.drain.reasons = [], []
    status.tracking, status.mechanisms = _without_lists(status.tracking), _without_lists(status.mechanisms)


def _hide_names(guaranteed: GuaranteedStatus) -> None:
    """Leaves out durable subscriptions and groups, also where a reason names one; how many there are stays."""
    guaranteed.held_back = _reason(guaranteed.held_back)
    guaranteed.durables = {}
    for pubend in guaranteed.pubends.values():
        pubend.durables = {}
        pubend.groups = {}


def _reason(text: str) -> str:
    """Says that there is a reason, without the names of clients and servers in it."""
    return "for a reason that operators see" if text else ""


def _without_lists(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        shown = {name: _without_lists(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **shown)
    if isinstance(value, dict):
        return {name: _without_lists(each) for name, each in value.items()}
    return [] if isinstance(value, list | tuple) else value
