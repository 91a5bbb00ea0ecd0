"""One direction of one connection through a link: a bounded buffer that delays bytes and limits their rate.

The delay counts from the moment bytes came in, so the buffer holds both bytes that wait their turn and bytes in flight:
to be used fully, a link needs a buffer of at least its bandwidth times its delay.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["QUANTUM_BYTES", "Pipe", "TokenBucket"]

QUANTUM_BYTES: Final = 1_024
"""Bytes worth waking up for, if there are more to come."""
_UNLIMITED: Final = 2**62


class Pipe:
    """A buffer of bytes in transit."""

    def __init__(self, bucket: TokenBucket, *, buffer_bytes: int, delay_s: float = 0.0) -> None:
        self._bucket = bucket
        self._buffer_bytes = buffer_bytes
        self.delay_s = delay_s
        """The minimum delay of bytes that come in from now on."""
        self._chunks: deque[tuple[float, bytes]] = deque()
        self.held_bytes = 0
        self.passed_bytes = 0
        self.has_ended = False
        """Whether no more bytes will come in."""

    @property
    def room_bytes(self) -> int:
        """Bytes for which the buffer has room."""
        return 0 if self.has_ended else self._buffer_bytes - self.held_bytes

    def put(self, data: bytes, *, now_s: float) -> None:
        """Add bytes that came in."""
        assert 0 < len(data) <= self.room_bytes, f"{len(data)} bytes, and room for {self.room_bytes}"
        self._chunks.append((now_s + self.delay_s, data))
        self.held_bytes += len(data)

    def look(self, *, now_s: float) -> bytes:
        """The bytes that may leave now; they stay in the buffer until ``passed``."""
        allowed = self._bucket.available(now_s=now_s)
        ready: list[bytes] = []
        for due_s, data in self._chunks:
            if due_s > now_s or allowed <= 0:
                break
            ready.append(data[:allowed])
            allowed -= len(data)
        return b"".join(ready)

    def passed(self, size: int) -> None:
        """Remove bytes that have left."""
        self._bucket.take(size)
        self.held_bytes -= size
        self.passed_bytes += size
        while size:
            due_s, data = self._chunks.popleft()
            if len(data) > size:
                self._chunks.appendleft((due_s, data[size:]))
            size -= min(size, len(data))

    def wait_s(self, *, now_s: float) -> float | None:
        """Time until enough bytes to be worth a turn may leave; None if the buffer is empty."""
        if not self._chunks:
            return None
        delay_s = max(0.0, self._chunks[0][0] - now_s)
        return max(delay_s, self._bucket.wait_s(min(self.held_bytes, QUANTUM_BYTES), now_s=now_s))


class TokenBucket:
    """Lets bytes pass at a rate; unused tokens are saved up to a limit.

    >>> bucket = TokenBucket(1000.0, 100, now_s=0.0)
    >>> bucket.available(now_s=0.0), bucket.available(now_s=0.05), bucket.available(now_s=9.0)
    (0, 50, 100)
    >>> bucket.take(100)
    >>> bucket.wait_s(20, now_s=9.0)
    0.02
    """

    def __init__(self, rate_bytes_s: float, burst_bytes: int, *, now_s: float) -> None:
        assert burst_bytes > 0, f"a burst of {burst_bytes} bytes lets nothing pass"
        self._rate, self._burst = rate_bytes_s, burst_bytes
        self._tokens, self._at_s = 0.0, now_s

    @property
    def rate_bytes_s(self) -> float:
        """Bytes per second; 0 for no limit."""
        return self._rate

    def change(self, rate_bytes_s: float, burst_bytes: int, *, now_s: float) -> None:
        """Change the rate; saved tokens are kept, up to the new limit."""
        self._fill(now_s)
        self._rate, self._burst = rate_bytes_s, burst_bytes

    def available(self, *, now_s: float) -> int:
        """Bytes that may pass now."""
        self._fill(now_s)
        return int(self._tokens) if self._rate else _UNLIMITED

    def take(self, size: int) -> None:
        """Take tokens for bytes that pass; no more than there are."""
        if self._rate:
            assert size <= self._tokens, f"{size} bytes pass, but only {self._tokens:.0f} may"
            self._tokens -= size

    def wait_s(self, size: int, *, now_s: float) -> float:
        """Time until this many bytes may pass, or as many as may ever pass at once."""
        self._fill(now_s)
        lacking = min(size, self._burst) - self._tokens
        return lacking / self._rate if self._rate and lacking > 0 else 0.0

    def _fill(self, now_s: float) -> None:
        # A clock that steps back neither adds nor removes tokens.
        self._tokens = min(self._tokens + self._rate * max(0.0, now_s - self._at_s), float(self._burst))
        self._at_s = now_s
