"""Gathers the figures of a broker's status, for the operator and for clients that ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.broker.peers import PeerKind
from penstock.broker.rooms import Rooms
from penstock.protocol.status import (
    BrokerStatus,
    CandidacyStatus,
    CongestionStatus,
    GuaranteedStatus,
    MigrationStatus,
    TrackingStatus,
)

__all__ = ["Beside", "Figures", "Sources"]


@dataclass(slots=True, frozen=True)
class Sources:
    """The functions that report the status of a broker's parts."""

    counts: Sequence[Callable[[], Mapping[str, int]]]
    malformed: Callable[[], int]
    refused: Callable[[], int]
    guaranteed: Callable[[], GuaranteedStatus]
    congestion: Callable[[], CongestionStatus]
    tracking: Callable[[], TrackingStatus]
    migration: Callable[[], MigrationStatus]
    mechanisms: Callable[[], dict[str, dict[str, Any]]]


class Beside(Protocol):
    """What runs beside a broker in the same process, and is no part of it: homes of pubends."""

    def candidacies(self) -> list[CandidacyStatus]:
        """The pubends that this broker may run the home of."""

    def brokers(self) -> dict[str, BrokerStatus]:
        """The homes that run here, by name."""


class Figures:
    """Gathers the figures of one broker's parts."""

    def __init__(self, rooms: Rooms, sources: Sources, *, incarnation: int) -> None:
        self._rooms = rooms
        self._sources = sources
        self._incarnation = incarnation
        self.beside: Beside | None = None
        """Who knows of the homes that run beside this broker, if any may."""

    def status(self) -> BrokerStatus:
        """Returns all figures, as of now."""
        rooms, sources = self._rooms, self._sources
        settings, connections = rooms.settings, rooms.connections
        kinds = [peer.kind for peer in connections.peers.values()]
        beside = self.beside
        return BrokerStatus(
            broker=settings.name,
            overlay=settings.overlay,
            incarnation=self._incarnation,
            pubends=list(settings.pubends),
            links=sorted(connections.links),
            brokers=sorted(rooms.topology.graph()),
            clients=kinds.count(PeerKind.CLIENT),
            strangers=kinds.count(PeerKind.STRANGER),
            subscriptions=len(rooms.subscribers),
            filters=rooms.filters.status(),
            outbox_bytes=connections.waiting_bytes(),
            outboxes={name: peer.outbox.data_bytes for name, peer in sorted(connections.links.items())},
            dropped=dict(connections.dropped),
            counts={name: count for each in sources.counts for name, count in each().items()},
            malformed=sources.malformed(),
            refused=sources.refused(),
            guaranteed=sources.guaranteed(),
            congestion=sources.congestion(),
            dead_letters=settings.dead_letters,
            tracking=sources.tracking(),
            migration=sources.migration(),
            mechanisms=sources.mechanisms(),
            candidacies=[] if beside is None else beside.candidacies(),
            homes={} if beside is None else beside.brokers(),
        )
