"""Notices clocks that are too wrong for the rules of the token ([Token] section 4.2).

Times of tokens made by different components are compared, so that clocks may differ by little against Δmax; drift up to
10⁻⁴ is harmless. Every offer says what time it is at its sender: if that is further from the own time than a share of
Δmax, one of the two clocks is wrong, and which one shows when several others say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ClockFault", "ClockWatch"]

_SHARE: Final = 0.1
"""A difference of this share of Δmax is reported; the rules hold up to about Δmax."""
_PEERS_MAX: Final = 1_024
_OWN_MIN: Final = 2
"""So many others must agree before the own clock is blamed."""


@dataclass(slots=True, frozen=True)
class ClockFault:
    """A clock differs by too much."""

    peer: str
    """The sender whose clock differs from the own."""
    error_ms: int
    """Its clock less the own."""
    is_own: bool
    """Whether it is rather the own clock that is wrong: most others differ from it too."""


class ClockWatch:
    """What one component knows of the clocks of others; bounded."""

    def __init__(self, max_ms: int) -> None:
        self._tolerance_ms = max(int(_SHARE * max_ms), 1)
        self._errors_ms: dict[str, int] = {}

    def adapt(self, max_ms: int) -> None:
        """Another Δmax."""
        self._tolerance_ms = max(int(_SHARE * max_ms), 1)

    @property
    def tolerance_ms(self) -> int:
        """Differences up to this are harmless."""
        return self._tolerance_ms

    @property
    def faults(self) -> dict[str, int]:
        """Those whose clock differs by too much, and by how much."""
        return {peer: error for peer, error in self._errors_ms.items() if abs(error) > self._tolerance_ms}

    def on_time(self, peer: str, sent_ms: int, *, now_ms: int) -> ClockFault | None:
        """Somebody said what time it was: a fault if it is one, and was none when it was heard last."""
        before = self._errors_ms.pop(peer, 0)
        if len(self._errors_ms) >= _PEERS_MAX:
            del self._errors_ms[next(iter(self._errors_ms))]
        error_ms = self._errors_ms[peer] = sent_ms - now_ms
        if abs(error_ms) <= self._tolerance_ms or abs(before) > self._tolerance_ms:
            return None
        faults = len(self.faults)
        return ClockFault(peer, error_ms, faults >= _OWN_MIN and 2 * faults > len(self._errors_ms))
