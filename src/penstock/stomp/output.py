"""What waits to be written to one client: in order, and fan-outs not spelled out before their turn."""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

__all__ = ["Output"]

_LARGE_BYTES: Final = 64 * 1024
"""From this size on, one copy serves all subscriptions that get a message, whatever their frames begin with."""
_ENTRY_BYTES: Final = 64
"""What a frame takes besides its bytes."""

_Fan: TypeAlias = tuple[list[bytes], bytes]
"""The same frame for several subscriptions: each beginning is followed by the same rest."""


class Output:
    """Bytes for one client.

    A large message for many subscriptions of one connection would take their number times its size; it is spelled out
    as far as it is written.
    """

    def __init__(self) -> None:
        self._waiting: deque[bytes | _Fan] = deque()
        self.size = 0
        """About how much memory it takes."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, data: bytes) -> None:
        """Append a frame."""
        self._waiting.append(data)
        self.size += len(data) + _ENTRY_BYTES

    def add_fan(self, heads: list[bytes], rest: bytes) -> None:
        """Append one frame for each of these beginnings; the list must not change any more."""
        if len(heads) == 1 and len(rest) < _LARGE_BYTES:
            self.add(heads[0] + rest)
            return
        self._waiting.append((heads, rest))
        self.size += len(rest) + _ENTRY_BYTES

    def clear(self) -> None:
        """Drop everything."""
        self._waiting.clear()
        self.size = 0

    def take(self, bytes_max: int) -> bytes:
        """Take out about this many bytes, but at least one frame, if there is any."""
        parts: list[bytes] = []
        size = 0
        waiting = self._waiting
        while waiting and size < bytes_max:
            first = waiting.popleft()
            if isinstance(first, bytes):
                part = first
                self.size -= len(first) + _ENTRY_BYTES
            else:
                part = self._spelled(first, bytes_max - size)
            parts.append(part)
            size += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _spelled(self, fan: _Fan, bytes_max: int) -> bytes:
        heads, rest = fan
        count = max(1, bytes_max // (len(rest) + len(heads[0])))
        if count < len(heads):
            self._waiting.appendleft((heads[count:], rest))
            heads = heads[:count]
        else:
            self.size -= len(rest) + _ENTRY_BYTES
        # The empty one at the end has the last frame get its rest without another copy of all.
        return rest.join((*heads, b""))
