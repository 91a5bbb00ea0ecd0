"""Runs a session in virtual time: over links of the simulated world, as the client library does over sockets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.broker.outbox import CONTROL_FRAME_BYTES
from penstock.protocol.frames import DataFrame, Frame, Goodbye
from penstock.session.address import Address
from penstock.session.changes import Abort, Changes, Dial, Effect, HangUp
from penstock.session.session import Session
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.link import Call, ClientLink, End
from penstock.sim.trace import Trace

__all__ = ["Surroundings", "VirtualShell"]

_WAKINGS_MAX: Final = 1_000
"""How often a session may be woken at the same time before that counts as an endless loop."""


@dataclass(slots=True, frozen=True)
class Surroundings:
    """What clients need from the world they live in."""

    clock: Clock
    trace: Trace
    host: Host
    find: Callable[[str, str], ClientLink]
    """The link between a client and a broker, by their names."""
    given_up: Callable[[], Mapping[str, int]] = dict
    """By pubend, the tick below which its log has been given up for trimming."""
    seed: int | str = 0


class _Stream:
    """Frames sent on a line that its wire has not taken yet: one stream of bytes, in which nothing overtakes."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()

    def push(self, frames: Iterable[Frame]) -> None:
        self._frames += frames

    def take(self, bytes_max: int) -> list[Frame]:
        taken: list[Frame] = []
        size = 0
        while self._frames and size < bytes_max:
            frame = self._frames.popleft()
            size += frame.size if isinstance(frame, DataFrame) else CONTROL_FRAME_BYTES
            taken.append(frame)
        return taken

    def __bool__(self) -> bool:
        return bool(self._frames)


class VirtualShell:
    """The connections and the timer of one session, for one life of a client's process."""

    def __init__(
        self,
        session: Session,
        clock: Clock,
        *,
        find: Callable[[Address], ClientLink | None],
        on_changes: Callable[[Changes], None],
        on_said: Callable[[int, Frame], None],
    ) -> None:
        """Reach addresses over the links that ``find`` returns; ``on_said`` gets every frame the session sends."""
        self._session, self._clock, self._find = session, clock, find
        self._on_changes, self._on_said = on_changes, on_said
        self._calls: dict[int, Call] = {}
        self._lines: dict[int, tuple[End, _Stream]] = {}
        self._timer_us: int | None = None
        self._wakings = 0
        self._is_frozen = self._is_over = False

    @property
    def brokers(self) -> dict[int, str]:
        """The brokers to which there is a connection, by the number of its line."""
        return {number: end.peer.node.name for number, (end, _) in self._lines.items()}

    # What the client calls.

    def open(self) -> None:
        """Connect."""
        self.react(self._session.open(now_ms=self._clock.now_ms))

    def close(self) -> None:
        """Say goodbye to everybody."""
        self.react(self._session.close(now_ms=self._clock.now_ms))

    def drop(self, *, loud: bool) -> None:
        """Lose all connections; if loud, the network tells the brokers."""
        for number in [*self._calls, *self._lines]:
            if number in self._lines:
                self._lines[number][0].abort(loud=loud)
            self._gone(number, "the connection was dropped")

    def freeze(self) -> None:
        """Let no time pass for the session and reach nobody, like a machine that sleeps."""
        self._is_frozen = True

    def thaw(self) -> None:
        """Resume after a freeze."""
        self._is_frozen = False
        self._set_timer()

    def end(self, *, loud: bool) -> None:
        """End the process, and its connections with it."""
        self._is_over = True
        for call in self._calls.values():
            call.is_over = True
        for end, _ in self._lines.values():
            end.abort(loud=loud)
        self._calls, self._lines = {}, {}

    def react(self, changes: Changes) -> None:
        """Carry out what the session wants, tell the client, and send."""
        for effect in changes.effects:
            self._carry_out(effect)
        self._on_changes(changes)
        self.pump()

    def pump(self) -> None:
        """Send what the session has to say, and set the timer."""
        now_ms = self._clock.now_ms
        for number, (end, stream) in self._lines.items():
            frames = self._session.take_frames(number, now_ms=now_ms)
            if frames:
                for frame in frames:
                    self._on_said(number, frame)
                stream.push(frames)
                end.wake()
        self._set_timer()

    # Link events.

    def on_connected(self, end: End) -> None:
        """Handle a line that is up."""
        del self._calls[end.number]
        stream = _Stream()
        self._lines[end.number] = (end, stream)
        end.attach(stream)
        self._session.on_connected(end.number, now_ms=self._clock.now_ms)
        self.pump()

    def on_frames(self, end: End, frames: Iterable[Frame]) -> None:
        """Handle a broker's frames."""
        now_ms = self._clock.now_ms
        self.react(self._session.on_frames(end.number, frames, now_ms=now_ms, wall_ms=now_ms))

    def on_lost(self, end: End) -> None:
        """Handle the loss of a line."""
        self._gone(end.number, "the broker closed the connection")

    # Internals.

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Dial(number, address):
                self._dial(number, address)
            case HangUp(number, last_words):
                farewell = last_words[-1] if last_words else None
                is_protocol = isinstance(farewell, Goodbye) and farewell.code == "protocol"
                assert not is_protocol, f"a broker broke the protocol: {farewell}"
                end, stream = self._lines[number]
                stream.push(last_words)
                end.close()
                self._clock.after(0, lambda: self._gone(number, "hung up"))
            case Abort(number):
                if number in self._lines:
                    self._lines[number][0].abort(loud=True)
                else:
                    self._calls[number].is_over = True
                self._clock.after(0, lambda: self._gone(number, "cut"))

    def _dial(self, number: int, address: Address) -> None:
        link = None if self._is_frozen else self._find(address)
        if link is not None:
            self._calls[number] = link.call(number, lambda problem: self._gone(number, problem))
        else:
            self._calls[number] = Call(number, lambda _: None)
            self._clock.after(0, lambda: self._gone(number, "there is no way there"))

    def _gone(self, number: int, problem: str) -> None:
        """Forget a line, or the attempt to make it, and tell the session."""
        call = self._calls.pop(number, None)
        if call is not None:
            call.is_over = True
        if self._lines.pop(number, None) is not None or call is not None:
            self.react(self._session.on_lost(number, problem, now_ms=self._clock.now_ms))

    def _set_timer(self) -> None:
        deadline_ms = self._session.next_deadline()
        if deadline_ms is None or self._is_frozen:
            return
        deadline_us = max(deadline_ms * 1_000, self._clock.now_us)
        if self._timer_us is None or deadline_us < self._timer_us:
            self._timer_us = deadline_us
            self._clock.at(deadline_us, self._on_timer)

    def _on_timer(self) -> None:
        now_us = self._clock.now_us
        # A timer that an earlier one has replaced is void.
        if self._timer_us is None or now_us < self._timer_us or self._is_over:
            return
        self._timer_us = None
        if not self._is_frozen:
            self.react(self._session.on_deadline(now_ms=self._clock.now_ms))
            self._wakings = self._wakings + 1 if self._timer_us == now_us else 0
            assert self._wakings < _WAKINGS_MAX, "the session wants to be woken again and again"
