"""Applies settings that change while a broker runs: members of the overlay, neighbours, permissions.

A broker is removed in two steps. Its links end at once. What is known of it (links, pubends, filter) is forgotten when
it cannot be reached any more: until the last broker has heard of the removal, it is still served.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from penstock.broker.access import Access
from penstock.broker.neighbours.neighbourhood import Neighbourhood
from penstock.broker.peers import Farewell, Peer, PeerKind
from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings, SettingsError

__all__ = ["CHANGEABLE", "Membership", "needs_restart"]

CHANGEABLE: Final = frozenset(
    {
        "neighbours",
        "members",
        "homes",
        "addresses",
        "all_last_values",
        "link_credential",
        "access",
        "silent_ms",
        "handshake_ms",
        "acknowledge_ms",
        "client_outbox_bytes",
        "link_outbox_bytes",
        "control_outbox_bytes",
        "held_back_bytes",
        "congestion",
        "grace_ms",
        "retain_ms",
        "retain_bytes",
        "retain_bytes_max",
        "retain_policy",
        "last_values_max",
        "last_bytes_max",
        "dead_letters",
        "connections_max",
        "client_waiting_bytes_max",
        "strangers_max",
        "subscriptions_max",
        "address",
        "migration_ms",
        "token",
        "limit",
        "report_ms",
    }
)
"""The settings that may change at run time. Clients were told of the others, or streams and logs are built on them."""


def needs_restart(before: BrokerSettings, after: BrokerSettings) -> list[str]:
    """Lists the changed settings that cannot change while the broker runs."""
    return [
        f"{each.name} ({_shown(getattr(before, each.name))} to {_shown(getattr(after, each.name))})"
        for each in fields(BrokerSettings)
        if each.name not in CHANGEABLE and getattr(before, each.name) != getattr(after, each.name)
    ]


class Membership:
    """Puts new settings into force in one broker."""

    def __init__(self, rooms: Rooms, neighbourhood: Neighbourhood) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._topology = rooms.topology
        self._filters = rooms.filters
        self._memory = rooms.memory
        self._neighbourhood = neighbourhood
        self._leaving: dict[str, None] = {}
        """Brokers that were removed and are not forgotten yet."""

    def apply(self, settings: BrokerSettings) -> list[Farewell]:
        """Changes the settings in force; returns the connections that must be closed for it."""
        if fixed := needs_restart(self._settings, settings):
            raise SettingsError(f"needs a restart of broker {self._settings.name}: {'; '.join(fixed)}")
        neighbours = self._settings.neighbours
        access = self._settings.access
        members = self._settings.members
        self._settings.change_to(settings)
        added = [name for name in settings.neighbours if name not in neighbours]
        removed = [name for name in neighbours if name not in settings.neighbours]
        self._neighbourhood.expect(added, removed)
        self._topology.restrict(settings.members)
        if settings.members:
            self._leaving |= dict.fromkeys(name for name in members if name not in settings.members)
        for name in settings.members:
            self._leaving.pop(name, None)
        self._set_bounds()
        for change, names in (("neighbour-added", added), ("neighbour-removed", removed)):
            for name in names:
                self._connections.record(change, neighbour=name)
        return self._farewells(access)

    def sweep(self) -> None:
        """Forgets removed brokers that cannot be reached any more."""
        if not self._leaving:
            return
        graph = self._topology.graph()
        for name in [name for name in self._leaving if name not in graph]:
            del self._leaving[name]
            self._topology.forget(name)
            self._filters.forget(name)
            self._memory.forget(name)
            self._connections.record("broker-forgotten", member=name)

    def _set_bounds(self) -> None:
        for peer in self._connections.peers.values():
            is_link = peer.dialled or peer.kind is PeerKind.LINK
            settings = self._settings
            peer.outbox.bound(settings.link_outbox_bytes if is_link else settings.client_outbox_bytes)

    def _farewells(self, access: Access) -> list[Farewell]:
        """Removed links, clients that have to authenticate again, and links on which all must be sent again."""
        settings = self._settings
        again = [name for name in settings.members if name in self._filters.forgotten]
        for name in again:
            del self._filters.forgotten[name]
        farewells = []
        for peer in self._connections.peers.values():
            name = peer.name if peer.kind is PeerKind.LINK else peer.dialled
            if name and name not in settings.neighbours:
                reason = f"there is no link between {settings.name} and {name} any more"
                farewells.append(Farewell(peer, "removed", reason))
            elif peer.kind is PeerKind.LINK and again:
                # Neighbours forward only what is new to them, and they may have known the filter all along.
                reason = f"{', '.join(again)} rejoined the overlay; reconnect to exchange all filters again"
                farewells.append(Farewell(peer, "again", reason))
            elif peer.guest is not None and not _is_as_before(peer, access, settings.access):
                farewells.append(Farewell(peer, "changed", "the client's permissions have changed; connect again"))
        return farewells


def _is_as_before(peer: Peer, before: Access, after: Access) -> bool:
    """Whether a client that was admitted before would be admitted now, with the same permissions."""
    assert peer.guest is not None
    client = peer.guest.client
    if after.rule_for(client) != peer.guest.rule:
        return False
    if after.is_open:
        return True
    is_proven = not before.is_open and before.certificates == after.certificates
    return is_proven and before.tokens.get(client) == after.tokens.get(client)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
