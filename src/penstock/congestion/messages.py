"""What pubends and subscriber-hosting brokers tell each other of congestion: DCQ and UCA ([Gryphon] section 3.1).

Both belong to one pubend and overtake data on every link; which pubend it is, the frame around them says.

Beyond the paper: a UCA also carries the greatest lag of those who alert and are not recovering. The profile ``paper``
does not look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isnan

from penstock.model.errors import PeerError

__all__ = ["Dcq", "Uca"]


@dataclass(slots=True, frozen=True)
class Dcq:
    """Downstream congestion query: the pubend asks who is congested, and says how far its stream has come."""

    seq: int
    """Grows with every query, also across restarts: the tick of the time at which it was sent, where that is enough."""
    position: int
    """The tick that the stream has come to."""

    @property
    def sent_ms(self) -> int | None:
        """When it was sent, by the pubend's clock; None where that clock is behind the stream's ticks, as once set."""
        return None if self.seq & 0xFFFF else self.seq >> 16


@dataclass(slots=True, frozen=True)
class Uca:
    """Upstream congestion alert: the slowest horizon rates, in tick-seconds per second; infinite if nobody alerts."""

    seq: int
    """The query that it answers."""
    min_nonrec: float = inf
    """The slowest of those that are not recovering and alert."""
    min_rec: float = inf
    """The slowest of those that are recovering and alert."""
    lag_ms: int = 0
    """How far behind the query's position the furthest was, of those that are not recovering and alert."""
    host: str = ""
    """Who is slowest; for people, not for control."""

    def __post_init__(self) -> None:
        rates = (self.min_nonrec, self.min_rec)
        if any(isnan(rate) or rate < 0 for rate in rates) or self.lag_ms < 0:
            raise PeerError(f"a UCA has rates {rates} and a lag of {self.lag_ms} ms, of which none may be negative")

    @property
    def slowest(self) -> float:
        """The slowest rate of both classes."""
        return min(self.min_nonrec, self.min_rec)

    def by(self, host: str) -> Uca:
        """The same, of a named host."""
        return replace(self, host=host)

    @property
    def is_alert(self) -> bool:
        """Whether anybody alerts at all."""
        return min(self.min_nonrec, self.min_rec) < inf
