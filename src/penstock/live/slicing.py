"""Cuts the data received on a connection into slices: frames that are handled in one go.

Frames are decoded as slices need them. The weight of a slice, a rough measure of its work, is limited: a message weighs
one, a frame with a selector weighs by the selector's length. A batch of messages that is heavier than the limit is
split, as if its publisher had sent two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from penstock.protocol.codec import FRAME_BYTES_MAX, FrameReader
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    Carry,
    FilterUpdate,
    Forward,
    Frame,
    KnowledgeMessage,
    LogRequest,
    Publish,
    ReadRequest,
    StatusRequest,
    Subscribe,
    Unsubscribe,
)

__all__ = ["FIRST_FRAME_BYTES_MAX", "Arrivals", "Slice"]

FIRST_FRAME_BYTES_MAX: Final = 64 * 1024
"""Largest frame that a peer may send before it has authenticated."""
_SELECTOR_WEIGHT: Final = 16
"""Weight of a selector, apart from its length."""
_CHARS_PER_WEIGHT: Final = 32


@dataclass(slots=True, frozen=True)
class Slice:
    """Frames to handle in one go."""

    frames: list[Frame]
    weight: int
    problem: str = ""
    """What is wrong with the bytes after these frames, if anything."""
    is_last: bool = False
    """Whether nothing more has arrived."""


class Arrivals:
    """Data received on one connection and not handled yet, in order."""

    __slots__ = ("_data", "_frames", "_is_known", "_reader", "_rest")

    def __init__(self) -> None:
        self._reader = FrameReader(FIRST_FRAME_BYTES_MAX)
        self._is_known = False
        self._data: list[bytes] = []
        self._frames: Iterator[Frame] | None = None
        self._rest: Publish | None = None

    def only_batch(self, data: bytes) -> Publish | None:
        """The batch that is all there is in data that has just arrived; None if the data has to be added."""
        if self._data or self._frames is not None or self._rest is not None or not self._is_known:
            return None
        return self._reader.only_batch(data)

    def add(self, data: bytes) -> None:
        """Append received data."""
        self._data.append(data)

    def drop(self) -> None:
        """Discard all that is left."""
        self._data = []
        self._frames = None
        self._rest = None

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of a frame that has not arrived completely."""
        return self._reader.unfinished_bytes

    def know(self) -> None:
        """Allow large frames from now on: the peer has authenticated."""
        self._is_known = True
        self._reader.bytes_max = FRAME_BYTES_MAX

    def take(self, weight_max: int) -> Slice:
        """The next frames, up to this weight but at least one; one from a stranger, whose hello decides on the rest."""
        frames: list[Frame] = []
        weight = 0
        try:
            while (source := self._source()) is not None:
                # The source keeps its place: the frames it has left are for the next slice.
                for frame in source:
                    frames.append(frame)
                    if type(frame) is Publish:
                        weight += len(frame.bodies)
                    else:
                        weigh = _WEIGHTS.get(type(frame))
                        weight += 1 if weigh is None else weigh(frame)
                    if weight >= weight_max or not self._is_known:
                        return Slice(frames, weight - self._shorten(frames, weight - weight_max))
                self._frames = None
        except ProtocolError as error:
            self.drop()
            return Slice(frames, weight, str(error), is_last=True)
        return Slice(frames, weight, is_last=True)

    def _source(self) -> Iterator[Frame] | None:
        """The iterator over the next frames, if there are any."""
        if self._rest is not None:
            rest, self._rest = self._rest, None
            return iter((rest,)) if self._frames is None else chain((rest,), self._frames)
        if self._frames is None and self._data:
            data, self._data = self._data, []
            self._frames = self._reader.feed(data[0] if len(data) == 1 else b"".join(data))
        return self._frames

    def _shorten(self, frames: list[Frame], excess: int) -> int:
        """Move the excess of the last frame to the next slice, if it can be split; returns the weight moved."""
        frame = frames[-1]
        if excess <= 0 or not isinstance(frame, Publish):
            return 0
        kept = len(frame.bodies) - excess
        assert kept > 0, "the slice was full before"
        frames[-1] = Publish(frame.first, frame.bodies[:kept], frame.pubend)
        self._rest = Publish(frame.first + kept, frame.bodies[kept:], frame.pubend)
        return excess


def _selectors_weight(update: FilterUpdate) -> int:
    texts = update.added + update.removed
    return _SELECTOR_WEIGHT * len(texts) + sum(map(len, texts)) // _CHARS_PER_WEIGHT


def _bodies_weight(frame: Carry | Forward | KnowledgeMessage) -> int:
    return len(frame.bodies)


_WEIGHTS: Final[dict[type, Callable[[Any], int]]] = {
    Carry: _bodies_weight,
    Forward: _bodies_weight,
    KnowledgeMessage: _bodies_weight,
    Subscribe: lambda frame: _SELECTOR_WEIGHT + len(frame.selector) // _CHARS_PER_WEIGHT,
    Unsubscribe: lambda _: _SELECTOR_WEIGHT,
    FilterUpdate: _selectors_weight,
    StatusRequest: lambda _: 4 * _SELECTOR_WEIGHT,
    LogRequest: lambda frame: _SELECTOR_WEIGHT + len(frame.selector) // _CHARS_PER_WEIGHT,
    ReadRequest: lambda frame: _SELECTOR_WEIGHT + len(frame.selector) // _CHARS_PER_WEIGHT,
}
"""Weights of frames by kind; kinds not listed weigh 1, and ``Publish`` is weighed where frames are taken."""
