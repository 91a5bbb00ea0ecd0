"""Heart-beats of a STOMP connection: what both sides have agreed on, and whether either of them is late.

A client offers how often it can send and wants to hear. The greater of one side's offer and the other's wish is agreed
on; where either is 0, nothing is.
"""

from __future__ import annotations

from typing import Final

from penstock.protocol.stomp import StompError

__all__ = ["SEND_MS", "HeartBeats"]

SEND_MS: Final = 500
"""The broker sends heart-beats no oftener than this."""
_MS_MAX: Final = 24 * 3_600_000
_MISSED: Final = 2
"""A client is silent when nothing came for this many times what was agreed on, since networks and clients delay."""
_GRACE_MS: Final = 1_000


class HeartBeats:
    """What is agreed on with one client."""

    def __init__(self, header: str, *, wanted_ms: int) -> None:
        """Agree with a client; raises ``StompError`` if its header is malformed."""
        can_ms, wants_ms = _parse(header)
        self.send_ms: Final = max(SEND_MS, wants_ms) if wants_ms else 0
        """How often the client must be sent something; 0 for never."""
        self.hear_ms: Final = max(can_ms, wanted_ms) if can_ms else 0
        """How often the client sends something; 0 if it has not promised to."""
        self._offered_ms = wanted_ms
        self._sent_ms = self._heard_ms = 0

    @property
    def header(self) -> str:
        """What the broker answers."""
        return f"{SEND_MS},{self._offered_ms}"

    def begin(self, *, now_ms: int) -> None:
        """Both sides know from now on."""
        self._sent_ms = self._heard_ms = now_ms

    def on_heard(self, *, now_ms: int) -> None:
        """Something came from the client."""
        self._heard_ms = now_ms

    def on_sent(self, *, now_ms: int) -> None:
        """Something was sent to the client."""
        self._sent_ms = now_ms

    def is_silent(self, *, now_ms: int) -> bool:
        """Whether the client has broken its promise."""
        return bool(self.hear_ms) and now_ms >= self._silent_at_ms()

    def must_beat(self, *, now_ms: int) -> bool:
        """Whether it is time for a heart-beat."""
        return bool(self.send_ms) and now_ms >= self._sent_ms + self._beat_ms()

    def next_deadline(self, *, has_output: bool, is_listening: bool = True) -> int | None:
        """When to beat, unless something waits to be written, and when the client counts as silent, if it is read."""
        wishes = []
        if self.send_ms and not has_output:
            wishes.append(self._sent_ms + self._beat_ms())
        if self.hear_ms and is_listening:
            wishes.append(self._silent_at_ms())
        return min(wishes, default=None)

    def _beat_ms(self) -> int:
        # Early, so that it arrives in time.
        return self.send_ms * 4 // 5

    def _silent_at_ms(self) -> int:
        return self._heard_ms + _MISSED * self.hear_ms + _GRACE_MS


def _parse(header: str) -> tuple[int, int]:
    parts = [part.strip() for part in header.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and len(part) < 12 for part in parts):
        raise StompError(f"heart-beat is {header[:100]!r}; it must be two numbers of milliseconds", "heart-beat")
    can_ms, wants_ms = (min(int(part), _MS_MAX) for part in parts)
    return can_ms, wants_ms
