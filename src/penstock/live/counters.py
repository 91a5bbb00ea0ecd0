"""What a live node counts: the part of its traffic that only the shell sees."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["Counters"]


@dataclass(slots=True)
class Counters:
    """Numbers that only grow, except the connections that are open."""

    open_connections: int = 0
    accepted: int = 0
    """Connections that others made."""
    turned_away: int = 0
    """Connections and TLS handshakes that were cut because there was no room for them."""
    dialled: int = 0
    """Connections that this node made."""
    dials_failed: int = 0
    closed: int = 0
    """Connections that ended, whoever wanted it."""
    aborted: int = 0
    """Connections that were cut because their end took too long."""
    frames_in: int = 0
    bytes_in: int = 0
    frames_out: int = 0
    bytes_out: int = 0
    writes: int = 0
    """Writes to sockets; each carries all that was there to send."""
    malformed: int = 0
    """Connections ended because their bytes or frames broke the protocol."""
    bugs: int = 0
    """Exceptions that must not be; each ended one connection."""

    def as_dict(self) -> dict[str, int]:
        """All of them, by name."""
        return asdict(self)
