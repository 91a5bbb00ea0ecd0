"""PRESS at a broker: while a session runs, every publication is matched against all interests ([PADRES] section 4.1).

The partner's covering set is subscribed to locally: it has its own index, and no other broker is told. When not
sampling, a message costs one more comparison, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from penstock.balancing.offload.instance import Interest, Profile, Publishing
from penstock.balancing.ports import MayGo
from penstock.balancing.press import Press
from penstock.broker.mechanisms.migration import Migrations
from penstock.broker.narrowing import is_reserved
from penstock.broker.peers import Peer, PeerKind
from penstock.broker.rooms import Rooms
from penstock.broker.sources import Source
from penstock.matching.chain import Ids
from penstock.matching.index import MatchIndex
from penstock.model.values import Attributes
from penstock.selectors.selector import Selector

__all__ = ["Sampling"]

_FRAME_BYTES: Final = 23
"""The bytes of a delivery besides the body, for one subscription."""


class _Gathered:
    """The clients that share one interest."""

    __slots__ = ("column", "movable", "selectors", "stays")

    def __init__(self, column: int, selectors: tuple[Selector, ...]) -> None:
        self.column, self.selectors = column, selectors
        self.movable: list[int] = []
        self.stays = False


class Sampling:
    """Records one profile."""

    def __init__(self, rooms: Rooms, migrations: Migrations) -> None:
        self._rooms = rooms
        self._subscribers = rooms.subscribers
        self._connections = rooms.connections
        self._migrations = migrations
        self._numbers: dict[Source, int] = {}
        """What movable publishers had published when sampling began."""
        self._began_ms = 0
        self._covering = MatchIndex()
        self._interests: list[Interest] = []
        self._press = Press(0, samples_max=1)
        self._column_of = np.zeros(0, np.int64)
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether all samples are taken."""
        return self._press.is_full

    def has_movable(self) -> bool:
        """Whether any client could be chosen: one that only subscribes or only publishes, and can be moved."""
        return any(
            peer.guest is not None
            and bool(_ordinary(peer)) != bool(peer.guest.sources)
            and not self._migrations.obstacle(peer.connection)
            for peer in self._connections.peers.values()
        )

    def begin(self, covering: Sequence[Selector], samples_max: int, may_go: MayGo) -> None:
        """Starts recording."""
        self._covering = MatchIndex()
        for number, selector in enumerate(covering):
            self._covering.add(number, selector)
        self._bytes = 0
        self._gather(may_go)
        self._gather_publishers(may_go)
        self._press = Press(len(self._interests), samples_max=samples_max)
        self._subscribers.sample_into(self._record)

    def end(self) -> Profile:
        """Stops recording and returns the profile."""
        self._subscribers.stop_sampling()
        mean = self._bytes / self._press.taken if self._press.taken else 0.0
        return Profile(self._interests, self._press, mean, publishing=self._publishing())

    def _record(self, attributes: Attributes, keys: Ids, size: int) -> None:
        # Newer subscriptions have no column: they cannot be moved in this session.
        columns = self._column_of[keys[keys < len(self._column_of)]]
        self._press.record(columns[columns >= 0], is_covered=bool(self._covering.find(attributes)))
        self._bytes += size + _FRAME_BYTES
        if self._press.is_full:
            self._subscribers.stop_sampling()

    def _gather(self, may_go: MayGo) -> None:
        """Makes one column for each distinct set of a client's subscriptions."""
        gathered: dict[tuple[str, ...], _Gathered] = {}
        column_of: dict[int, int] = {}
        for peer in self._connections.peers.values():
            wanted = _ordinary(peer)
            if not wanted:
                continue
            name = tuple(sorted(str(selector) for selector in wanted.values()))
            found = gathered.get(name)
            if found is None:
                found = gathered[name] = _Gathered(len(gathered), tuple(wanted.values()))
            column_of |= dict.fromkeys(wanted, found.column)
            # What a client publishes is not estimated: one that does both stays.
            publishes = peer.guest is not None and bool(peer.guest.sources)
            if not publishes and not self._migrations.obstacle(peer.connection) and may_go(peer.name):
                found.movable.append(peer.connection)
            else:
                found.stays = True
        self._interests = [
            Interest(" | ".join(name), tuple(each.movable), each.stays, len(each.selectors), each.selectors)
            for name, each in gathered.items()
        ]
        self._column_of = np.full(max(column_of, default=-1) + 1, -1, np.int64)
        self._column_of[list(column_of)] = list(column_of.values())

    def _gather_publishers(self, may_go: MayGo) -> None:
        """Notes what each client that only publishes has published so far."""
        self._began_ms = self._rooms.tracker.now_ms
        self._numbers = {
            source: source.received
            for peer in self._connections.peers.values()
            if peer.guest is not None and not _ordinary(peer)
            if not self._migrations.obstacle(peer.connection) and may_go(peer.name)
            for source in peer.guest.sources.values()
        }

    def _publishing(self) -> list[Publishing]:
        """The rates of these clients since then, by the brokers of their pubends."""
        seconds = max(self._rooms.tracker.now_ms - self._began_ms, 1) / 1_000
        found: dict[int, dict[str, float]] = {}
        for source, number in self._numbers.items():
            count = source.received - max(number, 0)
            if not source.is_gone and count > 0:
                home = self._rooms.topology.origin_of(source.pubend) or ""
                rates = found.setdefault(source.connection, {})
                rates[home] = rates.get(home, 0.0) + count / seconds
        self._numbers = {}
        client_of = self._connections.client_of
        return [Publishing(connection, client_of(connection), rates) for connection, rates in found.items()]


def _ordinary(peer: Peer) -> dict[int, Selector]:
    """The subscriptions of a client that see what applications publish, by key."""
    if peer.kind is not PeerKind.CLIENT or peer.guest is None:
        return {}
    return {
        each.key: each.selector
        for each in peer.guest.subscriptions.values()
        if not all(map(is_reserved, each.selector.conjunctions))
    }
