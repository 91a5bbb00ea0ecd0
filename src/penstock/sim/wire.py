"""One direction of a connection: pulls frames out of an outbox and brings them, in order, to the other side.

A wire takes only what it can send now, so that control frames overtake all data still in the outbox. A window bounds
what is in flight or not yet handled by the receiving host, as in TCP; beyond it the outbox fills, which has a bound and
a policy of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from penstock.broker.outbox import CONTROL_FRAME_BYTES, Outbox
from penstock.model.errors import MisuseError
from penstock.protocol.frames import Carry, Deliver, Forward, Frame, Handed, Horizons, KnowledgeMessage, Publish
from penstock.sim.clock import Clock
from penstock.sim.host import Host

__all__ = ["LinkOptions", "Source", "Wire"]

_BATCH_BYTES_MAX: Final = 64 * 1024
_BATCHES_PER_SECOND: Final = 1_000


@dataclass(slots=True, frozen=True)
class LinkOptions:
    """The properties of a link, the same in both directions."""

    latency_us: int = 1_000
    """From the end of sending to arrival."""
    jitter_us: int = 0
    """The most that is added to the latency, at random; order is kept."""
    bandwidth: int | None = None
    """Bytes per second; None for a wire that is never the bottleneck."""
    loss: float = 0.0
    """Probability that a frame of the best-effort class is lost. Control frames and those of guaranteed streams never
    are: the protocol relies on a reliable connection."""
    window_bytes: int = 4 * 1024 * 1024
    """Bytes that may be in flight or unread; at this limit, nothing more is taken out of the outbox."""

    def __post_init__(self) -> None:
        if self.latency_us < 0 or self.jitter_us < 0:
            raise MisuseError(f"latency {self.latency_us} or jitter {self.jitter_us} is negative")
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise MisuseError(f"bandwidth {self.bandwidth} is not positive")
        if not 0.0 <= self.loss <= 1.0:
            raise MisuseError(f"loss {self.loss} is no probability")
        if self.window_bytes <= 0:
            raise MisuseError(f"window_bytes {self.window_bytes} is not positive")

    @property
    def batch_bytes(self) -> int:
        """Bytes taken out of an outbox at once: about a millisecond's worth, so that control waits no longer."""
        if self.bandwidth is None:
            return _BATCH_BYTES_MAX
        return max(1, min(_BATCH_BYTES_MAX, self.bandwidth // _BATCHES_PER_SECOND))


class Source(Protocol):
    """The source that a wire pulls from: an outbox."""

    def take(self, bytes_max: int) -> list[Frame]:
        """Frames to send now."""

    def __bool__(self) -> bool:
        """Whether there are any."""


class Wire:
    """Carries the frames of one source to one receiver."""

    __slots__ = (
        "_arrive_bound",
        "_bandwidth",
        "_batch_bytes",
        "_carry",
        "_clock",
        "_deliver",
        "_ended",
        "_free_us",
        "_host",
        "_in_flight",
        "_is_ending",
        "_is_held",
        "_is_sending",
        "_jitter_us",
        "_last_us",
        "_loss",
        "_rng",
        "_source",
        "_stale",
        "_take",
        "_waits",
        "_window_bytes",
        "carried_bytes",
        "in_flight_bytes",
        "is_dead",
        "latency_us",
        "lost_frames",
    )

    def __init__(
        self,
        clock: Clock,
        options: LinkOptions,
        rng: Random,
        *,
        deliver: Callable[[list[Frame]], object],
        ended: Callable[[], object] | None = None,
        host: Host | None = None,
    ) -> None:
        """Make a wire to a receiver; ``host`` does the receiver's work, ``ended`` is called at the end."""
        self._clock, self._rng = clock, rng
        self._deliver, self._ended = deliver, ended
        self._host = None if host is None or host.is_free else host
        self.latency_us, self._jitter_us = options.latency_us, options.jitter_us
        self._bandwidth, self._loss = options.bandwidth or 0, options.loss
        self._batch_bytes, self._window_bytes = options.batch_bytes, options.window_bytes
        self._source: Source = _EMPTY
        self._take = _EMPTY.take
        self._in_flight: deque[tuple[list[Frame] | None, int]] = deque()
        self._arrive_bound = self._arrive
        self._carry = self._free_us = self._last_us = self._stale = 0
        # A wire waits while it sends, while its window is full and while it is held: then a pull comes later by itself.
        self._waits = self._is_sending = self._is_held = self._is_ending = False
        self.is_dead = False
        """Whether the wire will never deliver anything again."""
        self.in_flight_bytes = 0
        """Bytes in flight, or arrived and not yet handled."""
        self.carried_bytes = 0
        """Bytes sent."""
        self.lost_frames = 0
        """Data frames that were lost at random."""

    def attach(self, source: Source) -> None:
        """Pull from this source from now on."""
        self._source, self._take = source, source.take
        self.wake()

    def wake(self) -> None:
        """Notice that the source has something to send."""
        if not self._waits:
            self._pull()

    def end(self) -> None:
        """Send what the source still holds, then the end of the connection."""
        self._is_ending = True
        self.wake()

    def hold(self) -> None:
        """Deliver nothing until resumed, but lose nothing either."""
        if not self._is_held:
            self._is_held = self._waits = True
            self._stale += len(self._in_flight)

    def resume(self) -> None:
        """Continue after a hold; what was in flight is sent again, as TCP would."""
        if self.is_dead or not self._is_held:
            return
        self._is_held = False
        self._last_us = max(self._last_us, self._clock.now_us + self.latency_us)
        for _ in self._in_flight:
            self._clock.at(self._last_us, self._arrive_bound)
        self._go_on()

    def kill(self) -> None:
        """Lose what is in flight, and never deliver anything again."""
        if not self._is_held:
            self._stale += len(self._in_flight)
        self._in_flight.clear()
        self.is_dead = self._is_held = self._waits = True
        self._source, self._take = _EMPTY, _EMPTY.take
        self.in_flight_bytes = 0

    def check_invariants(self) -> None:
        """Fails if the bytes in flight do not add up."""
        queued = sum(size for _, size in self._in_flight)
        assert 0 <= queued <= self.in_flight_bytes, f"{self.in_flight_bytes} bytes in flight, {queued} in the queue"
        assert self._host is not None or queued == self.in_flight_bytes

    def _pull(self) -> None:
        if self._free_us > self._clock.now_us:
            self._pull_when_free()
            return
        take, batch_bytes = self._take, self._batch_bytes
        while frames := take(batch_bytes):
            size = 0
            for frame in frames:
                kind = type(frame)
                # Identity of types instead of isinstance: this is the hottest line of the simulator.
                if (
                    kind is Forward
                    or kind is Deliver
                    or kind is Publish
                    or kind is KnowledgeMessage
                    or kind is Carry
                    or kind is Horizons
                    or kind is Handed
                ):
                    size += frame.size  # type: ignore[union-attr]
                else:
                    size += CONTROL_FRAME_BYTES
            self.in_flight_bytes = in_flight_bytes = self.in_flight_bytes + size
            self.carried_bytes += size
            if self._loss:
                frames = self._survivors(frames)
            now_us, occupied_us = self._clock.now_us, 0
            if self._bandwidth:
                occupied_us, self._carry = divmod(size * 1_000_000 + self._carry, self._bandwidth)
                self._free_us = now_us = now_us + occupied_us
            self._send(frames, size, now_us)
            if in_flight_bytes >= self._window_bytes:
                self._waits = True
                return
            if occupied_us:
                # An idle wire needs no timer: the next wake-up checks whether it is free.
                if self._is_ending or self._source:
                    self._pull_when_free()
                return
        if self._is_ending:
            self._is_ending, self._source, self._take = False, _EMPTY, _EMPTY.take
            self._send(None, 0, self._clock.now_us)

    def _send(self, frames: list[Frame] | None, size: int, sent_us: int) -> None:
        arrival_us = sent_us + self.latency_us
        if self._jitter_us:
            arrival_us += self._rng.randrange(self._jitter_us + 1)
        self._last_us = arrival_us = max(arrival_us, self._last_us)
        self._in_flight.append((frames, size))
        self._clock.at(arrival_us, self._arrive_bound)

    def _arrive(self) -> None:
        # Arrivals keep their order, so those made void by a hold or a kill come before all later ones.
        if self._stale:
            self._stale -= 1
            return
        frames, size = self._in_flight.popleft()
        if frames is None:
            if self._ended is not None:
                self._ended()
        elif self._host is None:
            if frames:
                self._deliver(frames)
            self._release(size)
        else:
            self._host.submit(frames, size, lambda: self._handled(frames, size))

    def _handled(self, frames: list[Frame], size: int) -> None:
        if not self.is_dead:
            self._deliver(frames)
            self._release(size)

    def _release(self, size: int) -> None:
        if self.is_dead:
            return
        was_full = self.in_flight_bytes >= self._window_bytes
        self.in_flight_bytes -= size
        if was_full:
            self._go_on()

    def _pull_when_free(self) -> None:
        if not self._is_sending:
            self._waits = self._is_sending = True
            self._clock.at(self._free_us, self._on_sent)

    def _on_sent(self) -> None:
        self._is_sending = False
        self._go_on()

    def _go_on(self) -> None:
        if not self._is_held and not self._is_sending and self.in_flight_bytes < self._window_bytes:
            self._waits = False
            self._pull()

    def _survivors(self, frames: list[Frame]) -> list[Frame]:
        kept = [frame for frame in frames if not self._vanishes(frame)]
        self.lost_frames += len(frames) - len(kept)
        return kept

    def _vanishes(self, frame: Frame) -> bool:
        return isinstance(frame, Publish | Carry | Forward | Deliver) and self._rng.random() < self._loss


_EMPTY: Final = Outbox(control_bytes_max=0, data_bytes_max=0)
"""The source of a wire that has none (any more)."""
