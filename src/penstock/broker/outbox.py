"""The frames queued for one connection: a control lane that overtakes a data lane, both bounded in bytes.

The shell takes frames out when the connection can carry them, so control overtakes all data that is not yet on the
wire. At the bound of the data lane, which one frame may exceed, the newest data is dropped and counted: best effort may
lose it, and guaranteed streams ask for it again. A control lane that overflows means a peer that does not read: its
connection must be closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from penstock.protocol.frames import (
    ControlFrame,
    DataFrame,
    DurablesReply,
    Forgotten,
    Frame,
    Refused,
    Settled,
    StatusReply,
    StreamOpened,
    StreamSettle,
    StreamSettled,
    Subscribed,
    SurveyReply,
    TraceReply,
)

__all__ = ["CONTROL_FRAME_BYTES", "Outbox", "Tally"]

CONTROL_FRAME_BYTES = 256
"""The size a control frame counts as: most are smaller, and their exact size is known only once they are encoded."""
_LARGE_BYTES: Final = 1_024
"""A frame larger than this counts with its own size."""
_NAME_BYTES: Final = 64
"""The size a pubend counts as in a list: its name, and ticks."""
_TICK_BYTES: Final = 9

_MEASURES: Final[dict[type, Callable[[Any], int]]] = {
    StatusReply: lambda frame: len(frame.status),
    TraceReply: lambda frame: len(frame.trace),
    SurveyReply: lambda frame: _NAME_BYTES * (len(frame.spans) + len(frame.unreachable) + len(frame.keeping)),
    DurablesReply: lambda frame: sum(2 * _NAME_BYTES + len(each.selector) for each in frame.entries),
    Forgotten: lambda frame: _NAME_BYTES * len(frame.pending),
    # Without the start positions: a client that comes back with thousands of subscriptions gets all replies at once.
    Subscribed: lambda frame: len(frame.selector),
    Refused: lambda frame: len(frame.reason),
    Settled: lambda frame: _TICK_BYTES * len(frame.ticks),
    StreamOpened: lambda frame: _TICK_BYTES * len(frame.settled),
    StreamSettle: lambda frame: _TICK_BYTES * len(frame.ticks),
    StreamSettled: lambda frame: _TICK_BYTES * len(frame.ticks),
}
"""Approximate sizes of the frames that clients can request and that may be large."""


def _size(frame: ControlFrame) -> int:
    """The size that a frame of the control lane counts as."""
    measure = _MEASURES.get(type(frame))
    if measure is None:
        return CONTROL_FRAME_BYTES
    size = measure(frame)
    return size if size > _LARGE_BYTES else CONTROL_FRAME_BYTES


class Tally:
    """The data queued in several outboxes together; each of them keeps it up to date."""

    __slots__ = ("data_bytes",)

    def __init__(self) -> None:
        self.data_bytes = 0


class Outbox:
    """The frames queued for one connection."""

    __slots__ = (
        "_control",
        "_control_bytes_max",
        "_data",
        "_kept_bytes",
        "_tally",
        "control_bytes",
        "data_bytes",
        "data_bytes_max",
        "dropped_bytes",
        "dropped_frames",
        "taken_bytes",
    )

    def __init__(self, *, control_bytes_max: int, data_bytes_max: int, tally: Tally | None = None) -> None:
        self._tally = tally or Tally()
        self._control: deque[ControlFrame] = deque()
        self._data: deque[DataFrame] = deque()
        self._control_bytes_max = control_bytes_max
        self.data_bytes_max = data_bytes_max
        self._kept_bytes = 0
        """Data that was queued when the bound was last changed; it may exceed the new bound."""
        self.control_bytes = 0
        """The approximate size of the control lane."""
        self.data_bytes = 0
        self.dropped_frames = 0
        self.dropped_bytes = 0
        self.taken_bytes = 0
        """Bytes that the shell has taken so far, from both lanes."""

    def bound(self, data_bytes_max: int) -> None:
        """Sets the bound of the data lane; what is queued already is kept."""
        self.data_bytes_max, self._kept_bytes = data_bytes_max, self.data_bytes

    @property
    def newest_control(self) -> ControlFrame | None:
        """The last frame of the control lane, if any."""
        return self._control[-1] if self._control else None

    def __bool__(self) -> bool:
        return bool(self._control or self._data)

    def push_control(self, frame: ControlFrame) -> bool:
        """Queues a control frame; False if the lane is full: then the connection must be closed."""
        self._control.append(frame)
        self.control_bytes += _size(frame)
        return self.control_bytes <= self._control_bytes_max

    def push_data(self, frame: DataFrame) -> bool:
        """Queues a data frame; False if the lane is full: then the frame is dropped and counted."""
        size = frame.size
        # The last one may go over the bound: else a large one behind a small one would be dropped again and again.
        if self.data_bytes >= self.data_bytes_max:
            self.dropped_frames += 1
            self.dropped_bytes += size
            return False
        self.data_bytes += size
        self._tally.data_bytes += size
        self._data.append(frame)
        return True

    def take(self, bytes_max: int) -> list[Frame]:
        """Takes frames to send now, control first, until this many bytes are reached."""
        if not self._control and len(self._data) == 1 and bytes_max > 0:
            # The most frequent case of what follows.
            only = self._data.popleft()
            size = only.size
            self.data_bytes -= size
            self._tally.data_bytes -= size
            self.taken_bytes += size
            return [only]
        before = self.control_bytes
        taken = self.take_control(bytes_max)
        left = bytes_max - (before - self.control_bytes)
        data = self._data
        before = left
        while data and left > 0:
            frame = data.popleft()
            taken.append(frame)
            left -= frame.size
        self.data_bytes -= before - left
        self._tally.data_bytes -= before - left
        self.taken_bytes += before - left
        return taken

    @property
    def has_control(self) -> bool:
        """Whether there is anything for ``take_control``."""
        return bool(self._control)

    def take_control(self, bytes_max: int) -> list[Frame]:
        """Takes frames of the control lane alone, until this many bytes are reached: where data has no room."""
        taken: list[Frame] = []
        left = bytes_max
        control = self._control
        while control and left > 0:
            said = control.popleft()
            taken.append(said)
            left -= _size(said)
        self.control_bytes -= bytes_max - left
        self.taken_bytes += bytes_max - left
        return taken

    def discard_data(self, is_needless: Callable[[DataFrame], bool]) -> None:
        """Discards queued data that the other end gets elsewhere."""
        kept = [frame for frame in self._data if not is_needless(frame)]
        kept_bytes = sum(frame.size for frame in kept)
        self._tally.data_bytes -= self.data_bytes - kept_bytes
        self._data, self.data_bytes = deque(kept), kept_bytes

    def detach(self) -> None:
        """Leaves the shared tally: its connection is ending, and what it holds no longer concerns the others."""
        self._tally.data_bytes -= self.data_bytes
        self._tally = Tally()
        self._tally.data_bytes = self.data_bytes

    def clear(self) -> None:
        """Discards everything: nobody will take it any more."""
        self._control.clear()
        self.control_bytes = 0
        self._data.clear()
        self._tally.data_bytes -= self.data_bytes
        self.data_bytes = 0

    def check_invariants(self) -> None:
        """Fails if the bytes do not add up or exceed the bound."""
        assert self.control_bytes == sum(map(_size, self._control))
        assert self.data_bytes == sum(frame.size for frame in self._data)
        bound = max(self.data_bytes_max, self._kept_bytes)
        assert not self._data or self.data_bytes - self._data[-1].size < bound
