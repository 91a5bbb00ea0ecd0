"""The old connection of a client that has moved: takes what is still on its way, until the broker ends it."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Deliver, Frame, Goodbye, PubendNames
from penstock.session.changes import Changes
from penstock.session.inboxes import Inboxes
from penstock.session.overlap import Overlap
from penstock.session.received import received_from

__all__ = ["Leaver"]


class Leaver:
    """The endpoint of the old one of a client's two connections."""

    def __init__(self, pubends: dict[int, str], outgoing: list[Frame], inboxes: Inboxes, overlap: Overlap) -> None:
        """Continues where the session left off on this connection."""
        self._pubends, self._outgoing = pubends, outgoing
        self._inboxes, self._overlap = inboxes, overlap
        self.writable = True
        self.received = 0

    @property
    def reading(self) -> bool:
        """Whether the shell should read from the socket."""
        return not self._inboxes.are_blocking

    def on_connected(self, *, now_ms: int) -> None:
        """Never called: the connection was made long ago."""
        raise AssertionError(f"an old connection was made at {now_ms}")

    def on_frames(self, frames: Iterable[Frame], *, now_ms: int, wall_ms: int) -> Changes:
        """Frames from the old broker; what it says about subscriptions no longer counts."""
        del now_ms, wall_ms
        changes = Changes()
        for frame in frames:
            if isinstance(frame, Deliver):
                name = self._pubends.get(frame.pubend)
                if name is None:
                    raise ProtocolError(f"pubend number {frame.pubend} has no name")
                self.received += len(frame.bodies)
                for numbers, received in zip(frame.numbers, received_from(frame, name), strict=True):
                    self._overlap.deliver_old(numbers, received, changes.inboxes)
            elif isinstance(frame, PubendNames):
                self._pubends.update(frame.names)
            elif isinstance(frame, Goodbye):
                changes.goodbye = frame
        if changes.inboxes:
            self._inboxes.block_if_full(changes.inboxes)
        return changes

    def on_disconnected(self) -> Changes:
        """The old connection has ended."""
        return Changes()

    def take_frames(self, *, now_ms: int) -> list[Frame]:
        """The last words to the old broker."""
        del now_ms
        frames, self._outgoing = self._outgoing, []
        return frames

    def next_deadline(self) -> int | None:
        """No deadline: whoever made the move waits for its end."""
        return None

    def is_silent(self, *, now_ms: int) -> bool:
        """Never: whether the connection must be given up is decided elsewhere."""
        del now_ms
        return False

    def on_reading(self, *, now_ms: int) -> None:
        """The shell reads from the socket again."""
