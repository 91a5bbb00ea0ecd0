"""DCQ and UCA: how pubends and subscriber-hosting brokers tell each other of congestion ([Gryphon] section 3.1).

Both belong to one pubend, which the frame around them names, and overtake data on every link.

Beyond the paper: a UCA also carries the greatest lag among alerting brokers that are not recovering. Cuts by factor, as
in the profile ``paper``, only use it to decide whether a recovery spares part of the rate.
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
    """Grows with every query, also across restarts: the tick of the sending time, or higher if the clock is behind."""
    position: int
    """The tick that the stream has reached."""

    @property
    def sent_ms(self) -> int | None:
        """When it was sent, by the pubend's clock; None if that clock was set back behind the stream's ticks."""
        return None if self.seq & 0xFFFF else self.seq >> 16


@dataclass(slots=True, frozen=True)
class Uca:
    """Upstream congestion alert: the slowest horizon rates, in tick-seconds per second; infinite if nobody alerts."""

    seq: int
    """The query that it answers."""
    min_nonrec: float = inf
    """The slowest rate among alerting brokers that are not recovering."""
    min_rec: float = inf
    """The slowest rate among alerting brokers that are recovering."""
    lag_ms: int = 0
    """The greatest lag behind the query's position among alerting brokers that are not recovering."""
    host: str = ""
    """Name of the slowest host; for people, not for control."""

    def __post_init__(self) -> None:
        rates = (self.min_nonrec, self.min_rec)
        if any(isnan(rate) or rate < 0 for rate in rates) or self.lag_ms < 0:
            raise PeerError(f"malformed UCA: rates {rates} and lag {self.lag_ms} ms must not be negative or NaN")

    @property
    def slowest(self) -> float:
        """The slower rate of the two classes."""
        return min(self.min_nonrec, self.min_rec)

    def by(self, host: str) -> Uca:
        """A copy of this alert that names its host."""
        return replace(self, host=host)

    @property
    def is_alert(self) -> bool:
        """Whether any broker alerts at all."""
        return min(self.min_nonrec, self.min_rec) < inf
