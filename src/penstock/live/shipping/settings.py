"""Settings of shipping for operators: where to, how often, how much at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["INTERVAL", "VISIT", "Budget", "ShipSettings"]

INTERVAL: Final = "interval"
VISIT: Final = "token"
"""Ship when the wandering token comes by."""


@dataclass(slots=True, frozen=True)
class Budget:
    """How much one turn of shipping may do; at least one batch is shipped in any case."""

    bytes_max: int = 64 << 20
    """Bytes of records that are read."""
    ms_max: int = 4_000


@dataclass(slots=True, frozen=True)
class ShipSettings:
    """Shipping to a lake; the same for all brokers of an overlay."""

    lake: Path
    """The folder of the lake, for all brokers of one overlay and for no other."""
    interval_ms: int = 60_000
    """How often a broker ships."""
    bytes_max: int = 64 << 20
    """Bytes that one turn may read."""
    turn_ms: int = 4_000
    """Time that one turn may take."""
    when: str = INTERVAL
    """Whether brokers ship by interval, or when the token is with them, which then is about every interval."""
    retain_ms: int = 0
    """How long a broker keeps sealed filters that were shipped, to answer traces itself; 0 for as long as it can."""

    @property
    def budget(self) -> Budget:
        """The budget of one turn."""
        return Budget(self.bytes_max, self.turn_ms)
