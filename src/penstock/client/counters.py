"""A snapshot of a client's counters."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.session.session import Session

__all__ = ["ClientCounters"]


@dataclass(slots=True, frozen=True)
class ClientCounters:
    """Counters of what a client has done so far, at one moment."""

    published: int
    """Messages accepted from the application."""
    acknowledged: int
    """Published messages that a broker has acknowledged."""
    settled: int
    """Published messages up to the first one to each pubend that is not yet acknowledged, refused or lost."""
    refused: int
    lost: int
    """Messages on the wire to best-effort pubends when a connection broke; they may or may not have arrived."""
    received: int
    repeated: int
    """Deliveries dropped because they had arrived before."""
    reconnects: int
    moves: int = 0
    """How often a broker has moved this client to another one."""
    taken_away: int = 0
    """Messages of groups that this client had for too long, or was cut off with, before the application judged them.

    Those that the application had not read are dropped: others have been handed them.
    """

    @classmethod
    def of(cls, session: Session) -> ClientCounters:
        """Take a snapshot of a session's counters."""
        queue = session.publishing
        return cls(
            published=queue.published,
            acknowledged=queue.acknowledged,
            settled=queue.settled,
            refused=queue.refused,
            lost=queue.lost,
            received=session.received,
            repeated=session.repeated,
            reconnects=session.reconnects,
            moves=session.moves,
            taken_away=session.taken_away,
        )
