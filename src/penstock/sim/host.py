"""Modelled machines: handling input takes time, and waiting input takes memory, in proportion to its amount.

While a host is busy its input queues up. The queue needs no limit of its own: waiting input still counts against the
window of the wire it came by, so the queue is bounded by the windows of all connections, and senders are held back as
by TCP. A broker that needs more memory than its host has is killed, as by an operating system.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.errors import MisuseError
from penstock.protocol.frames import Carry, Forward, Frame, Handed, KnowledgeMessage, Publish
from penstock.sim.clock import Callback, Clock

__all__ = ["CostModel", "Host"]


@dataclass(slots=True, frozen=True)
class CostModel:
    """The cost of input on a host of speed 1, in nanoseconds, and the memory that a broker needs."""

    frame_ns: int = 0
    """Cost of each frame."""
    message_ns: int = 0
    """Extra cost of each message in a frame."""
    byte_ns: int = 0
    """Extra cost of each byte."""
    broker_bytes: int = 0
    """Memory of an idle broker."""
    subscription_bytes: int = 0
    """Memory for each subscription."""

    def __post_init__(self) -> None:
        for name in ("frame_ns", "message_ns", "byte_ns", "broker_bytes", "subscription_bytes"):
            if getattr(self, name) < 0:
                raise MisuseError(f"{name} {getattr(self, name)} is negative")

    @property
    def is_free(self) -> bool:
        """Whether input costs nothing."""
        return not (self.frame_ns or self.message_ns or self.byte_ns)

    def batch_ns(self, frames: Sequence[Frame], size: int) -> int:
        """The cost of a batch of this size."""
        messages = sum(
            len(frame.bodies) if isinstance(frame, Publish | Carry | Forward | KnowledgeMessage | Handed) else 1
            for frame in frames
        )
        return self.frame_ns * len(frames) + self.message_ns * messages + self.byte_ns * size


class Host:
    """One machine with one core."""

    def __init__(
        self, clock: Clock, cost: CostModel | None = None, *, speed: float = 1.0, memory_bytes: int | None = None
    ) -> None:
        if speed <= 0:
            raise MisuseError(f"speed {speed} of a host is not positive")
        if memory_bytes is not None and memory_bytes <= 0:
            raise MisuseError(f"memory_bytes {memory_bytes} of a host is not positive")
        self._clock, self._speed = clock, speed
        self.memory_bytes = memory_bytes
        """The host's memory; None for no limit."""
        self.queued_bytes = 0
        """Bytes of input that wait or are being handled."""
        self.cost = cost or CostModel()
        self.is_free = self.cost.is_free
        """Whether input is handled at once."""
        self._queue: deque[tuple[int, int, Callback]] = deque()
        self._carry_ns = 0
        self._is_busy = False
        self.busy_us = 0
        """Time spent on finished work."""
        self.queued_max = 0
        """The most batches that ever waited."""

    @property
    def queued(self) -> int:
        """Batches that wait, without the one in work."""
        return len(self._queue)

    def submit(self, frames: Sequence[Frame], size: int, done: Callback) -> None:
        """Work on a batch when its turn comes, and call back when it is handled."""
        self._queue.append((int(self.cost.batch_ns(frames, size) / self._speed), size, done))
        self.queued_bytes += size
        if not self._is_busy:
            self._start()
        self.queued_max = max(self.queued_max, len(self._queue))

    def crash(self) -> None:
        """Drop all waiting batches; the one in work is still called back, and must notice that it is too late."""
        self.queued_bytes -= sum(size for _, size, _ in self._queue)
        self._queue.clear()

    def _start(self) -> None:
        cost_ns, size, done = self._queue.popleft()
        self._is_busy = True
        # Fractions of a microsecond carry over to the next batch, so that many small ones cost what they should.
        cost_us, self._carry_ns = divmod(cost_ns + self._carry_ns, 1_000)

        def finish() -> None:
            self._is_busy = False
            self.busy_us += cost_us
            self.queued_bytes -= size
            done()
            if self._queue and not self._is_busy:
                self._start()

        self._clock.after(cost_us, finish)
