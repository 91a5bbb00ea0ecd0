"""Notices clocks that are too wrong for the rules of the token ([Token] section 4.2).

Components compare the timestamps of tokens made elsewhere, so their clocks may only differ by a small share of Δmax;
drift up to 10⁻⁴ is harmless. Every offer carries its sender's time. If that differs from our own by more than a share
of Δmax, one of the two clocks is wrong; if several others disagree with ours, it is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ClockFault", "ClockWatch"]

_SHARE: Final = 0.1
"""Differences above this share of Δmax are reported; the rules hold up to about Δmax."""
_PEERS_MAX: Final = 1_024
_OWN_MIN: Final = 2
"""How many others must disagree with our own clock before it is blamed."""


@dataclass(slots=True, frozen=True)
class ClockFault:
    """A clock differs by too much."""

    peer: str
    """The sender whose clock differs from ours."""
    error_ms: int
    """Its clock minus ours."""
    is_own: bool
    """Whether our own clock is probably the wrong one: most others differ from it too."""


class ClockWatch:
    """What one component knows about the clocks of others; bounded."""

    def __init__(self, max_ms: int) -> None:
        self._tolerance_ms = max(int(_SHARE * max_ms), 1)
        self._errors_ms: dict[str, int] = {}

    def adapt(self, max_ms: int) -> None:
        """Adapts the tolerance to another Δmax."""
        self._tolerance_ms = max(int(_SHARE * max_ms), 1)

    @property
    def tolerance_ms(self) -> int:
        """Differences up to this are harmless."""
        return self._tolerance_ms

    @property
    def faults(self) -> dict[str, int]:
        """Peers whose clock differs by too much, and by how much."""
        return {peer: error for peer, error in self._errors_ms.items() if abs(error) > self._tolerance_ms}

    def on_time(self, peer: str, sent_ms: int, *, now_ms: int) -> ClockFault | None:
        """Takes a peer's time; returns a fault if its clock is wrong and was not the last time it was heard."""
        before = self._errors_ms.pop(peer, 0)
        if len(self._errors_ms) >= _PEERS_MAX:
            del self._errors_ms[next(iter(self._errors_ms))]
        error_ms = self._errors_ms[peer] = sent_ms - now_ms
        if abs(error_ms) <= self._tolerance_ms or abs(before) > self._tolerance_ms:
            return None
        faults = len(self.faults)
        return ClockFault(peer, error_ms, faults >= _OWN_MIN and 2 * faults > len(self._errors_ms))
