"""The trace of a simulated world: one readable line per event, and a digest to compare two runs by.

The digest covers every event, in order; the ring keeps the last of them for people. Events are hashed in bundles, as
one update of the hash per event would cost more than the event.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Final, TextIO

__all__ = ["Trace"]

_BUNDLE_MAX: Final = 512


class Trace:
    """The events of one run."""

    def __init__(self, *, start_us: int = 0, lines_max: int = 10_000, output: TextIO | None = None) -> None:
        """Keep the last ``lines_max`` lines, and write all of them to an output if there is one."""
        self._start_us, self._output = start_us, output
        self._hash = blake2b(digest_size=16)
        self._bundle: list[str] = []
        self._recent: deque[tuple[int, str, str]] = deque(maxlen=lines_max)
        self.events = 0
        """Events noted so far."""

    def note(self, time_us: int, who: str, what: str) -> None:
        """Add an event."""
        self.events += 1
        self._recent.append((time_us, who, what))
        bundle = self._bundle
        bundle.append(f"{time_us} {who} {what}\n")
        if len(bundle) >= _BUNDLE_MAX:
            self._digest_bundle()
        if self._output is not None:
            self._output.write(self._line(time_us, who, what) + "\n")

    def digest(self) -> str:
        """A fingerprint of all events so far: the same seed gives the same one."""
        self._digest_bundle()
        return self._hash.hexdigest()

    def lines(self) -> list[str]:
        """The last events, readable: seconds since the start, who, what."""
        return [self._line(*event) for event in self._recent]

    def _line(self, time_us: int, who: str, what: str) -> str:
        seconds, micros = divmod(time_us - self._start_us, 1_000_000)
        return f"{seconds:6d}.{micros:06d} {who:<12} {what}"

    def _digest_bundle(self) -> None:
        self._hash.update("".join(self._bundle).encode())
        self._bundle.clear()
