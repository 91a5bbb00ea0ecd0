"""What a client has done so far, in numbers at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.session.session import Session

__all__ = ["ClientCounters"]


@dataclass(slots=True, frozen=True)
class ClientCounters:
    """What a client has done so far."""

    published: int
    """Messages taken from the application."""
    acknowledged: int
    """Those of them that a broker has taken over."""
    settled: int
    """So many, in their order, were acknowledged, refused or lost."""
    refused: int
    lost: int
    """Messages on the wire when a connection was lost that could not be sent again: they may have arrived, or not."""
    received: int
    repeated: int
    """Deliveries that were dropped because they had arrived before."""
    reconnects: int
    moves: int = 0
    """How often a broker has had this client go to another one; nothing else tells the application."""

    @classmethod
    def of(cls, session: Session) -> ClientCounters:
        """The numbers of a session now."""
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
        )
