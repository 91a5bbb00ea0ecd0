"""Bounds what all STOMP connections of a node have of frames that have not arrived completely.

Each of them may have a frame of megabytes, and a client that sends most of one and then nothing breaks no rule: it may
have promised no heart-beats. So what counts is how much there is in all. Those that have been quiet longest go first:
whoever is still sending is not affected by them.
"""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["UNFINISHED_BYTES_MAX", "Unfinished"]

UNFINISHED_BYTES_MAX: Final = 96 * 1024 * 1024
"""Bytes of all unfinished frames together."""
_COUNTED_BYTES_MIN: Final = 64 * 1024
"""Less than this is not worth the trouble: there is only so much room for connections."""


class _Holder(Protocol):
    """A connection that may have an unfinished frame."""

    def give_up(self, reason: str) -> None:
        """End, because of what is unfinished."""


class Unfinished:
    """The unfinished frames of several connections."""

    def __init__(self, bytes_max: int = UNFINISHED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[_Holder, int] = {}
        """By connection, those that have been quiet longest first."""
        self.size = 0
        """Of all of them together."""

    def note(self, holder: _Holder, size: int) -> None:
        """More has arrived on a connection, on which this much of a frame is there; ends others if need be."""
        if size < _COUNTED_BYTES_MIN:
            if self._sizes:
                self.forget(holder)
            return
        self.forget(holder)
        self._sizes[holder] = size
        self.size += size
        while self.size > self._bytes_max:
            quiet = next(iter(self._sizes))
            self.forget(quiet)
            quiet.give_up(f"unfinished frames take more than {self._bytes_max:,} bytes, and this one was quiet longest")

    def forget(self, holder: _Holder) -> None:
        """A connection has nothing unfinished."""
        self.size -= self._sizes.pop(holder, 0)
