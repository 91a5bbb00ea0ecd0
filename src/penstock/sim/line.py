"""One connection of a simulated client: what it says on it, its heartbeats, and when it takes the broker for dead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.broker.outbox import Outbox
from penstock.protocol.frames import ControlFrame, DataFrame, Heartbeat, Welcome
from penstock.sim.clock import Clock
from penstock.sim.link import End

__all__ = ["Line"]

_OUTBOX_BYTES: Final = 64 * 1024 * 1024
_SILENT_BEATS: Final = 5
"""A broker that was not heard for so many heartbeats is given up."""
_FIRST_BEAT_MS: Final = 1_000


class Line:
    """A connection, from its making until it is over."""

    def __init__(self, clock: Clock, end: End, *, on_silent: Callable[[], None]) -> None:
        """Begin to say something on it; whoever made it is told when the broker has fallen silent."""
        self._clock, self.end, self._on_silent = clock, end, on_silent
        self._outbox = Outbox(control_bytes_max=_OUTBOX_BYTES, data_bytes_max=_OUTBOX_BYTES)
        end.attach(self._outbox)
        self._said_us = self._heard_us = clock.now_us
        self.welcome: Welcome | None = None
        """What the broker said first; None before that."""
        self.is_over = False
        self._beat_after(_FIRST_BEAT_MS)

    def say(self, frame: ControlFrame) -> None:
        """Send a control frame."""
        self._said_us = self._clock.now_us
        self._outbox.push_control(frame)
        self.end.wake()

    def carry(self, frame: DataFrame) -> None:
        """Send a data frame."""
        self._said_us = self._clock.now_us
        self._outbox.push_data(frame)
        self.end.wake()

    def hear(self) -> None:
        """Something has come."""
        self._heard_us = self._clock.now_us

    def _beat_after(self, beat_ms: int) -> None:
        self._clock.after(beat_ms * 1_000, lambda: self._beat(beat_ms))

    def _beat(self, beat_ms: int) -> None:
        if self.is_over:
            return
        now_us = self._clock.now_us
        if now_us - self._heard_us >= _SILENT_BEATS * beat_ms * 1_000:
            self._on_silent()
            return
        if self.welcome is not None:
            beat_ms = self.welcome.heartbeat_ms
            if now_us - self._said_us >= beat_ms * 1_000:
                self.say(Heartbeat(self._clock.now_ms))
        self._beat_after(beat_ms)
