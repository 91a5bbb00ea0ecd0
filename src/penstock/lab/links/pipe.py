"""One direction of one connection through a link: a bounded buffer that bytes leave late, and no faster than allowed.

The delay counts from the moment in which bytes came in, so the buffer holds what waits for its turn and what is under
way: a link that is to be used fully needs at least its bandwidth times its delay.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from penstock.lab.links.bucket import TokenBucket

__all__ = ["QUANTUM_BYTES", "Pipe"]

QUANTUM_BYTES: Final = 1_024
"""Bytes worth being woken for, if there are more to come."""


class Pipe:
    """The bytes on their way."""

    def __init__(self, bucket: TokenBucket, *, buffer_bytes: int, delay_s: float = 0.0) -> None:
        self._bucket = bucket
        self._buffer_bytes = buffer_bytes
        self.delay_s = delay_s
        """How late bytes that come in from now on leave, at least."""
        self._chunks: deque[tuple[float, bytes]] = deque()
        self.held_bytes = 0
        self.passed_bytes = 0
        self.has_ended = False
        """Whether nothing will come in any more."""

    @property
    def room_bytes(self) -> int:
        """Bytes that may come in."""
        return 0 if self.has_ended else self._buffer_bytes - self.held_bytes

    def put(self, data: bytes, *, now_s: float) -> None:
        """Bytes come in."""
        assert 0 < len(data) <= self.room_bytes, f"{len(data)} bytes, and room for {self.room_bytes}"
        self._chunks.append((now_s + self.delay_s, data))
        self.held_bytes += len(data)

    def look(self, *, now_s: float) -> bytes:
        """The bytes that may leave now; they are there until ``passed``."""
        allowed = self._bucket.available(now_s=now_s)
        ready: list[bytes] = []
        for due_s, data in self._chunks:
            if due_s > now_s or allowed <= 0:
                break
            ready.append(data[:allowed])
            allowed -= len(data)
        return b"".join(ready)

    def passed(self, size: int) -> None:
        """So many of them have left."""
        self._bucket.take(size)
        self.held_bytes -= size
        self.passed_bytes += size
        while size:
            due_s, data = self._chunks.popleft()
            if len(data) > size:
                self._chunks.appendleft((due_s, data[size:]))
            size -= min(size, len(data))

    def wait_s(self, *, now_s: float) -> float | None:
        """Time until something worth a turn may leave; none if nothing is there."""
        if not self._chunks:
            return None
        delay_s = max(0.0, self._chunks[0][0] - now_s)
        return max(delay_s, self._bucket.wait_s(min(self.held_bytes, QUANTUM_BYTES), now_s=now_s))
