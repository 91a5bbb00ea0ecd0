"""Limits connections that have not authenticated: in number, and in how quickly they can guess tokens.

When there are too many, the oldest is closed: an honest peer says hello at once. The first refusal of an address is
sent at once, each further one later than the last, so that tokens cannot be tried out quickly. A peer that
authenticates is admitted at once, whatever others at its address do. A refused connection that waits for its answer
counts as a stranger like any other, and its frames are not kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from penstock.broker.due import Due
from penstock.broker.peers import Farewell, Peer, PeerKind
from penstock.broker.settings import BrokerSettings
from penstock.protocol.errors import ProtocolError

__all__ = ["FORGET_MS", "REFUSAL_MS", "REFUSAL_MS_MAX", "SOURCES_MAX", "Strangers", "source_of"]

REFUSAL_MS: Final = 100
"""How long the second refusal of an address waits; each further one waits twice as long."""
REFUSAL_MS_MAX: Final = 3_000
"""The longest that a refusal waits."""
FORGET_MS: Final = 60_000
"""An address that was not refused for this long has a clean slate."""
SOURCES_MAX: Final = 1_024
"""Most addresses whose refusals are counted; a new one replaces the one refused longest ago."""


@dataclass(slots=True)
class _Refusals:
    count: int = 0
    last_ms: int = 0
    free_ms: int = 0
    """When the last refusal is due: refusals of one address queue up, however many connections it has."""


class Strangers:
    """The strangers of one broker, oldest first, and the addresses that were refused recently."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._peers: dict[int, Peer] = {}
        self.due = Due(self.next_deadline)
        self._due: dict[int, tuple[int, str]] = {}
        """When each refused connection gets its answer, and the answer."""
        self._sources: dict[str, _Refusals] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, peer: Peer) -> bool:
        return peer.connection in self._peers

    def enter(self, peer: Peer) -> list[Farewell]:
        """Adds a new connection; returns those that must be closed to make room."""
        self._peers[peer.connection] = peer
        limit = self._settings.strangers_max
        if len(self._peers) <= limit:
            return []
        oldest = next(iter(self._peers.values()))
        return [Farewell(oldest, "full", f"more than {limit:,} connections have not identified themselves")]

    def leave(self, peer: Peer) -> None:
        """The peer has authenticated or disconnected."""
        self._peers.pop(peer.connection, None)
        self._due.pop(peer.connection, None)

    def refuse(self, peer: Peer, problem: str, *, now_ms: int) -> list[Farewell]:
        """Refuses a peer's hello; returns the connection if it must be closed at once."""
        due_ms = self._due_ms(source_of(peer.source), now_ms)
        if due_ms <= now_ms or peer not in self:
            return [Farewell(peer, "refused", problem)]
        self._due[peer.connection] = due_ms, problem
        self.due.by(due_ms)
        return []

    def on_heartbeat(self, peer: Peer) -> None:
        """Rejects a heartbeat from a stranger, which has to say who it is, and nothing else."""
        # A peer that waits for its refusal may be an honest client, which behaves as usual.
        if peer.kind is PeerKind.STRANGER and not self.is_refused(peer):
            raise ProtocolError("Heartbeat from a stranger")

    def is_refused(self, peer: Peer) -> bool:
        """Whether a peer waits for its refusal: what it says meanwhile does not matter."""
        return peer.connection in self._due

    def next_deadline(self) -> int | None:
        """When the next refusal is due."""
        return min([due_ms for due_ms, _ in self._due.values()]) if self._due else None

    def on_deadline(self, *, now_ms: int) -> list[Farewell]:
        """Returns the connections whose refusals are due."""
        due = [number for number, (due_ms, _) in self._due.items() if due_ms <= now_ms]
        return [Farewell(self._peers[number], "refused", self._due[number][1]) for number in due]

    def _due_ms(self, source: str, now_ms: int) -> int:
        found = self._sources.pop(source, None)
        refusals = found if found is not None and now_ms - found.last_ms < FORGET_MS else _Refusals()
        longest_ms = min(REFUSAL_MS_MAX, self._settings.handshake_ms // 2)
        wait_ms = min(REFUSAL_MS << min(refusals.count - 1, 16), longest_ms) if refusals.count else 0
        due_ms = min(max(now_ms, refusals.free_ms) + wait_ms, now_ms + longest_ms)
        # Inserted last, so that the first entry is the one refused longest ago.
        self._sources[source] = _Refusals(refusals.count + 1, now_ms, due_ms)
        if len(self._sources) > SOURCES_MAX:
            del self._sources[next(iter(self._sources))]
        return due_ms


def source_of(address: str) -> str:
    """The address that refusals count for: for IPv6 its /64 network, since one host owns all addresses in it."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    return str(found.ipv4_mapped) if found.ipv4_mapped else found.exploded[:19]
