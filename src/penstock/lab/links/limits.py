"""Limits of one link: bandwidth of each direction, delay, and buffer; common to all kinds of links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.lab.frame.errors import ParameterError

__all__ = ["DIRECTIONS", "LinkLimits"]

DIRECTIONS: Final = ("there", "back")
"""From the broker that dials to the one that listens, and the other way."""
_BURST_S: Final = 0.1
_BURST_BYTES_MIN: Final = 2_048


@dataclass(slots=True, frozen=True)
class LinkLimits:
    """The limits of a link."""

    there_bytes_s: float = 0.0
    """Bandwidth from the broker that dials to the one that listens; 0 for no limit."""
    back_bytes_s: float = 0.0
    """Bandwidth the other way; 0 for no limit."""
    delay_ms: float = 0.0
    """Delay each way."""
    buffer_bytes: int = 65_536
    """Bytes held per direction of a connection before the sender has to wait."""

    def __post_init__(self) -> None:
        for name in ("there_bytes_s", "back_bytes_s", "delay_ms"):
            if not 0 <= getattr(self, name) < 1e12:
                raise ParameterError(f"{name} of a link is {getattr(self, name)}, must be at least 0 and below 1e12")
        if not 1 <= self.buffer_bytes <= 2**30:
            raise ParameterError(f"buffer_bytes of a link is {self.buffer_bytes}, must be 1 to {2**30}")

    def rate(self, direction: str) -> float:
        """Bytes per second of a direction."""
        return self.there_bytes_s if direction == "there" else self.back_bytes_s

    def burst_bytes(self, direction: str) -> int:
        """Bytes that may pass at once: enough that a machine which is late now and then does not narrow the link."""
        return max(_BURST_BYTES_MIN, int(self.rate(direction) * _BURST_S))
