"""A connection whose peer speaks STOMP, over TCP, TLS or WebSocket.

The conversation is led by ``penstock.stomp``; this shell gives it the clock, a timer and the bytes. What the broker
says is taken from the outbox only when everything before it has been written, so a client that does not read is held
to the bounds of its outbox, as any other.
"""

from __future__ import annotations

import asyncio
import select
import socket
from typing import Final

from penstock.live.connection import Connection, Owner
from penstock.live.slicing import FIRST_FRAME_BYTES_MAX, Slice
from penstock.live.unfinished import Unfinished
from penstock.protocol.frames import Frame, Publish
from penstock.protocol.stomp import StompError, StompFrame, StompLimits, StompReader, Version, encode
from penstock.stomp import StompPeer
from penstock.system.clock import Clock

__all__ = ["UNREAD_BYTES_MAX", "StompConnection", "StompDialect", "stomp_farewell"]

UNREAD_BYTES_MAX: Final = 1024 * 1024
"""About how much may wait to be written, answers of the broker included, before nothing more is read."""

_WEIGHTS: Final = {"SUBSCRIBE": 16, "UNSUBSCRIBE": 16, "COMMIT": 64}
"""What frames weigh in a slice, next to a SEND, which weighs 1."""
_CHARS_PER_WEIGHT: Final = 32
_PAUSE_S_MIN: Final = 0.005
_LOOK_MS: Final = 5_000
"""How often a client is looked after while nothing is read."""
_GONE_LOOKS_MAX: Final = 6
"""In how many looks in a row a client may have closed its side until its waiting frames are given up."""
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)
"""The event of a socket whose other side sends no more, also with bytes left to read; 0 where there is none."""
_REASON_CHARS_MAX: Final = 500
# A client that has promised no heart-beats is found dead by the kernel.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class StompDialect:
    """Reads STOMP frames, has a peer answer them, and says what follows from them in the broker's frames."""

    def __init__(self, peer: StompPeer, limits: StompLimits, clock: Clock) -> None:
        self._peer = peer
        self._clock = clock
        self._limits = limits
        self._reader = StompReader(limits)
        self._bytes_max = self._reader.bytes_max
        self._reader.bytes_max = FIRST_FRAME_BYTES_MAX
        self._data: list[bytes] = []
        self.problem = ""
        """Why the client's bytes are no STOMP; empty if they are."""

    # As every dialect.

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of a frame that has not arrived completely."""
        return self._reader.unfinished_bytes

    def only_batch(self, data: bytes) -> Publish | None:
        """None: every frame is looked at."""
        del data
        return None

    def add(self, data: bytes) -> None:
        """Append received data."""
        self._data.append(data)

    def drop(self) -> None:
        """Discard what was received and not taken, and the beginning of a frame."""
        self._data = []
        self._reader = StompReader(self._limits)

    def know(self) -> None:
        """Allow large frames from now on."""
        self._reader.bytes_max = self._bytes_max

    def take(self, weight_max: int) -> Slice:
        """Answer frames of the client, up to this weight, and return what is to be said to the broker."""
        peer = self._peer
        now_ms, wall_ms = self._now()
        if self._data:
            peer.on_heard(now_ms=now_ms)
        data, self._data = b"".join(self._data), []
        weight, is_last = 0, True
        try:
            for frame in self._reader.feed(data):
                peer.on_frame(frame, now_ms=now_ms, wall_ms=wall_ms)
                self._reader.version = peer.version
                weight += 1 if frame.command == "SEND" else _weight(frame)
                if weight >= weight_max or peer.is_waiting:
                    # The reader keeps the rest.
                    is_last = False
                    break
        except StompError as error:
            self.problem = str(error)
            peer.on_malformed(error)
        return Slice(peer.take_frames(now_ms=now_ms), max(weight, 1), is_last=is_last or peer.is_waiting)

    def encode(self, frames: list[Frame]) -> bytes:
        """What the client is told about this, as far as it can be told at once."""
        self.hear(frames)
        return self.take_bytes(2**62)

    def farewell(self, code: str, reason: str) -> bytes:
        """An ERROR."""
        return stomp_farewell(code, reason)

    # As a conversation.

    @property
    def is_waiting(self) -> bool:
        """Whether nothing more should be read from the client for now."""
        return self._peer.is_waiting

    @property
    def unread_bytes(self) -> int:
        """About how much memory is taken by what is to be written."""
        return self._peer.unread_bytes

    def on_heard(self) -> None:
        """The client has sent something that is no frame yet, or may have, while nobody was listening."""
        self._peer.on_heard(now_ms=self._clock.now_ms())

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be taken from the broker for now."""
        return self._peer.is_full

    @property
    def is_over(self) -> bool:
        """Whether the connection ends once all bytes are out."""
        return self._peer.is_over

    @property
    def has_bytes(self) -> bool:
        """Whether something is to be written."""
        return self._peer.has_bytes

    def hear(self, frames: list[Frame]) -> None:
        """The broker says something."""
        now_ms, wall_ms = self._now()
        self._peer.on_broker(frames, now_ms=now_ms, wall_ms=wall_ms)

    def take_bytes(self, bytes_max: int) -> bytes:
        """Take out what is to be written, about that many bytes."""
        return self._peer.take_bytes(bytes_max, now_ms=self._clock.now_ms())

    def take_frames(self) -> list[Frame]:
        """Take out what is to be said to the broker."""
        return self._peer.take_frames(now_ms=self._clock.now_ms())

    def on_gone(self) -> list[Frame]:
        """The connection is gone; returns the last words to the broker."""
        now_ms = self._clock.now_ms()
        self._peer.on_gone(now_ms=now_ms)
        return self._peer.take_frames(now_ms=now_ms)

    @property
    def is_stirred(self) -> bool:
        """Whether there may be frames to take, or a deadline that is earlier than before."""
        return self._peer.is_stirred

    def next_deadline(self) -> int | None:
        """When ``on_deadline`` is to be called, in milliseconds."""
        return self._peer.next_deadline()

    def now_ms(self) -> int:
        """The time for deadlines."""
        return self._clock.now_ms()

    def probe(self) -> None:
        """Write something that means nothing, if nothing else is to be written."""
        self._peer.probe()

    def on_deadline(self) -> None:
        """Do what is due."""
        now_ms, wall_ms = self._now()
        self._peer.on_deadline(now_ms=now_ms, wall_ms=wall_ms)

    def _now(self) -> tuple[int, int]:
        # The broker's clock is all there is: peer and broker live in one process.
        now_ms = self._clock.now_ms()
        return now_ms, now_ms


class StompConnection(Connection):
    """A transport, and the STOMP client at its other end."""

    is_movable = False

    def __init__(self, number: int, owner: Owner, dialect: StompDialect, unfinished: Unfinished | None = None) -> None:
        """All connections of a node have the same ``unfinished``."""
        super().__init__(number, owner, dialect=dialect)
        self._stomp = dialect
        self._unfinished = unfinished if unfinished is not None else Unfinished()
        self._message_bytes = 0
        """What a WebSocket has of a message that is not complete."""
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms = 0
        """For when the timer is set."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look_ms = 0
        """When to look whether a client has gone from which nothing is read; 0 if it is read."""
        self._looks = 0
        """How often it was looked for since nothing is read."""
        self._gone_looks = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the transport up, and tell the node."""
        super().connection_made(transport)
        # Kept: to ask for it costs a system call.
        self._loop = asyncio.get_running_loop()
        found = self._socket
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what the client had and is not done with, and tell the node."""
        if self._timer is not None:
            self._timer.cancel()
        self._unfinished.forget(self)
        last_words = self._stomp.on_gone()
        if last_words and self.outbox is not None:
            self._owner.on_frames(self, last_words)
        super().connection_lost(exc)

    def know(self) -> None:
        """Note that the client has authenticated."""
        super().know()
        # A WebSocket holds strangers to small messages, too.
        transport_knows = getattr(self._transport, "know", None)
        if transport_knows is not None:
            transport_knows()

    def work(self) -> None:
        """Handle received data; what follows from it for the client is written at the end of the turn."""
        super().work()
        if self._stomp.problem:
            problem, self._stomp.problem = self._stomp.problem, ""
            self._owner.on_broken(self, problem)
        if not self.is_closing:
            self._unfinished.note(self, self._stomp.unfinished_bytes + self._message_bytes)
        if self._stomp.has_bytes or self._stomp.is_over:
            self._owner.turns.wake(self)
        self._arm()

    def progress(self, unfinished_bytes: int) -> None:
        """A WebSocket has received more of a message, of which this much is there."""
        if self.is_closing:
            return
        self._message_bytes = unfinished_bytes
        self._stomp.on_heard()
        self._unfinished.note(self, self._stomp.unfinished_bytes + unfinished_bytes)

    def give_up(self, reason: str) -> None:
        """End, because of a frame that does not come to its end."""
        self.refuse("slow", reason)
        self._stomp.drop()
        self._owner.on_broken(self, reason)

    def flush(self) -> None:
        """Write what waits; only if nothing does, hear what the broker has to say."""
        transport, stomp = self._transport, self._stomp
        if transport is None or self._is_paused or self._has_said_all:
            return
        if not stomp.has_bytes:
            self._hear()
        if data := stomp.take_bytes(self._water_bytes):
            counters = self._owner.counters
            counters.bytes_out += len(data)
            counters.writes += 1
            transport.write(data)
        # Hardly anything that is only written on changes what there is to say, or when.
        if is_stirred := stomp.is_stirred:
            self._pass_on()
        if stomp.is_over:
            self.close()
        if stomp.has_bytes or self._has_news():
            if not self._is_paused:
                self._owner.turns.wake(self)
        elif self.is_closing:
            self._say_no_more()
        if self._is_behind and not self._has_to_wait():
            self._put_off()
        if is_stirred:
            self._arm()

    def resume_writing(self) -> None:
        """Continue writing."""
        super().resume_writing()
        if self._stomp.has_bytes:
            self._owner.turns.wake(self)

    def _hear(self) -> None:
        if self._has_news():
            outbox = self.outbox
            assert outbox is not None
            # To a client that must acknowledge something first, answers are not held back: it may wait for them.
            frames = outbox.take_control(self._water_bytes) if self._is_full() else outbox.take(self._water_bytes)
            self._owner.counters.frames_out += len(frames)
            self._stomp.hear(frames)

    def _has_news(self) -> bool:
        """Whether the broker has something to say that the client can take; its last words at any rate."""
        outbox = self.outbox
        return outbox is not None and (outbox.has_control if self._is_full() else bool(outbox))

    def _is_full(self) -> bool:
        return self._stomp.is_full and not self.is_closing

    def _pass_on(self) -> None:
        """Say to the broker what the client's peer has to say of itself."""
        if self.outbox is not None and (frames := self._stomp.take_frames()):
            self._owner.on_frames(self, frames)

    def _has_to_wait(self) -> bool:
        return super()._has_to_wait() or self._stomp.is_waiting or self._is_unread()

    def _is_unread(self) -> bool:
        """Whether so much waits for the client that what it asks for should wait, until some of that is written."""
        unread_bytes = self._stomp.unread_bytes + (0 if self.outbox is None else self.outbox.control_bytes)
        return unread_bytes > UNREAD_BYTES_MAX

    def _arm(self) -> None:
        """Set the timer, unless it fires early enough."""
        deadline_ms = self._stomp.next_deadline()
        if self._look_ms or self._is_held:
            deadline_ms = self._next_look(deadline_ms)
        if deadline_ms is None or self._transport is None or self._loop is None:
            return
        if self._timer is not None:
            if self._deadline_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._deadline_ms = deadline_ms
        due_s = max((deadline_ms - self._stomp.now_ms()) / 1_000, _PAUSE_S_MIN)
        self._timer = self._loop.call_later(due_s, self._on_timer)

    def _next_look(self, deadline_ms: int | None) -> int | None:
        """The deadline, or the time of the next look, if nothing is read and that is earlier."""
        if not self._is_held:
            self._look_ms = self._looks = self._gone_looks = 0
            return deadline_ms
        if not self._look_ms:
            self._look_ms = self._stomp.now_ms() + _LOOK_MS
        return self._look_ms if deadline_ms is None else min(deadline_ms, self._look_ms)

    def _look(self) -> None:
        """End the connection of a client that has gone for good: while nothing is read, nobody else notices.

        Not at once: what it sent before it went is to be done, if that is only held back for a moment.
        """
        self._look_ms = self._stomp.now_ms() + _LOOK_MS
        if self._socket is None or not _HUNG_UP:
            return
        poll = select.poll()
        poll.register(self._socket.fileno(), _HUNG_UP)
        self._gone_looks = self._gone_looks + 1 if poll.poll(0) else 0
        self._looks += 1
        if self._gone_looks >= _GONE_LOOKS_MAX:
            self.abort()
        elif self._looks >= _GONE_LOOKS_MAX and not self._gone_looks:
            # The end of a client that has filled its window does not get here. But its machine answers what is written
            # to it, and then all that it sent is lost: so not before its time is over, either.
            self._stomp.probe()

    def _on_timer(self) -> None:
        self._timer = None
        if self._is_behind:
            # Nobody is listening to it, so it is not silent.
            self._stomp.on_heard()
        self._stomp.on_deadline()
        if self._look_ms and self._is_held and self._stomp.now_ms() >= self._look_ms:
            self._look()
        self._pass_on()
        self._arm()
        self._owner.turns.wake(self)


def stomp_farewell(code: str, reason: str) -> bytes:
    """An ERROR for a client that has no session, or none any more; without anything that a version could misread."""
    message = " ".join(reason.split())[:_REASON_CHARS_MAX].replace("\0", " ")
    headers = {"message": message, "content-type": "text/plain", "penstock-code": code}
    return encode(StompFrame("ERROR", headers, f"{message}\n".encode()), Version.V1_0)


def _weight(frame: StompFrame) -> int:
    weight = _WEIGHTS.get(frame.command, 1)
    selector = frame.headers.get("selector")
    return weight if selector is None else weight + len(selector) // _CHARS_PER_WEIGHT
