"""What the peer of a connection speaks: between its bytes and the broker's frames.

A connection hands received bytes to its dialect and takes slices of frames from it, and has it encode what the broker
says. Penstock's own protocol is one dialect; ``stomp_connection`` has another.
"""

from __future__ import annotations

from typing import Final, Protocol

from penstock.live.slicing import Arrivals, Slice
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import Frame, Goodbye, Publish

__all__ = ["Dialect", "Native", "native_farewell"]

_REASON_CHARS_MAX: Final = 500


class Dialect(Protocol):
    """Both directions of one connection."""

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of a frame that has not arrived completely."""

    def only_batch(self, data: bytes) -> Publish | None:
        """The batch of messages that is all there is in data that has just arrived; None if the data must be added."""

    def add(self, data: bytes) -> None:
        """Append received data."""

    def take(self, weight_max: int) -> Slice:
        """The frames for the broker that come next, about up to this weight."""

    def drop(self) -> None:
        """Discard what was received and not taken."""

    def know(self) -> None:
        """Allow large frames from now on: the peer has authenticated."""

    def encode(self, frames: list[Frame]) -> bytes:
        """What the broker says, as bytes for the peer."""

    def farewell(self, code: str, reason: str) -> bytes:
        """The last bytes for the peer: why the connection ends."""


class Native(Arrivals):
    """Penstock's own protocol."""

    __slots__ = ()

    def encode(self, frames: list[Frame]) -> bytes:
        """The frames, one after the other."""
        return encode_frame(frames[0]) if len(frames) == 1 else b"".join([encode_frame(frame) for frame in frames])

    def farewell(self, code: str, reason: str) -> bytes:
        """A goodbye."""
        return native_farewell(code, reason)


def native_farewell(code: str, reason: str) -> bytes:
    """A goodbye, also for peers that have no connection yet."""
    return encode_frame(Goodbye(code, reason[:_REASON_CHARS_MAX]))
