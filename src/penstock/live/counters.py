"""Counters of a live node, for the part of its traffic that only the shell sees."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["Counters"]


@dataclass(slots=True)
class Counters:
    """Counters that only grow, except ``open_connections``."""

    open_connections: int = 0
    accepted: int = 0
    """Incoming connections."""
    turned_away: int = 0
    """Connections and TLS handshakes that were cut for lack of room."""
    dialled: int = 0
    """Outgoing connections."""
    dials_failed: int = 0
    closed: int = 0
    """Connections that ended, for whatever reason."""
    aborted: int = 0
    """Connections that were cut because closing took too long."""
    frames_in: int = 0
    bytes_in: int = 0
    frames_out: int = 0
    bytes_out: int = 0
    writes: int = 0
    """Writes to sockets; each carries all frames that were ready."""
    malformed: int = 0
    """Connections ended because their bytes or frames broke the protocol."""
    bugs: int = 0
    """Unexpected exceptions; a connection that meets one ends."""

    def as_dict(self) -> dict[str, int]:
        """All counters, by name."""
        return asdict(self)
