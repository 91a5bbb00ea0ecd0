"""Simulates thousands of subscribers cheaply: one subscription each, moved as brokers ask.

They speak the same protocol as other clients and migrate as told: they open the new connection first, with their
positions, and deduplicate what both connections bring. Only the way to them is simplified: a broker's clients share its
output bandwidth (``OutputPort``), and frames are handed over as soon as they are sent, stamped with the time of
arrival. So deliveries do not cost an event each.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import Final

from penstock.broker.outbox import CONTROL_FRAME_BYTES, Outbox
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Acknowledge,
    ControlFrame,
    Deliver,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    Horizons,
    Migrate,
    Moved,
    MoveFailed,
    PubendNames,
    Subscribe,
    Subscribed,
    Welcome,
)
from penstock.sim.clock import Clock
from penstock.sim.node import SimBroker

__all__ = ["Member", "OutputPort", "Port"]

_LATENCY_US: Final = 1_000
_AHEAD_US: Final = 20_000
"""How much may be on the way to clients before the rest waits in outboxes."""
_BATCH_BYTES: Final = 16 * 1024
_NUMBER: Final = 1
"""The number of the only subscription of a member."""
_NOWHERE: Final = -1
"""The position in a stream about which nothing is known yet."""


class _Stream:
    """A member's progress in one pubend's stream, over all its connections."""

    __slots__ = ("position", "ticks")

    def __init__(self) -> None:
        self.position = _NOWHERE
        self.ticks = array("Q")


class OutputPort:
    """A broker's output bandwidth, which its clients share in the order in which there is something for them."""

    def __init__(self, clock: Clock, bytes_s: float) -> None:
        self._clock, self._bytes_s = clock, bytes_s
        self._waiting: deque[Port] = deque()
        self._free_us = 0.0
        self._is_waiting = False
        self.delivered = 0
        """Messages delivered to clients, each counted once."""
        self.delay_us = 0
        """Total time that these messages took from publication to arrival."""

    def wake(self, port: Port) -> None:
        """Send what there is for a client, or queue it."""
        if self._is_waiting or self._waiting:
            self._queue(port)
            if not self._is_waiting:
                self._serve()
        elif self._free_us - self._clock.now_us > _AHEAD_US:
            self._queue(port)
            self._wait()
        else:
            self._send(port)

    def _queue(self, port: Port) -> None:
        if not port.is_queued:
            port.is_queued = True
            self._waiting.append(port)

    def _wait(self) -> None:
        self._is_waiting = True
        self._clock.at(int(self._free_us), self._serve)

    def _serve(self) -> None:
        self._is_waiting = False
        now_us, waiting = self._clock.now_us, self._waiting
        while waiting:
            if self._free_us - now_us > _AHEAD_US:
                self._wait()
                return
            port = waiting.popleft()
            port.is_queued = False
            self._send(port)

    def _send(self, port: Port) -> None:
        outbox = port.outbox
        if outbox is None or not port.is_open:
            return
        frames, now_us, free_us = outbox.take(_BATCH_BYTES), self._clock.now_us, self._free_us
        size = 0
        for frame in frames:
            # Identity of types instead of isinstance: thousands of deliveries a second go through here.
            kind = type(frame)
            if kind is Deliver or kind is Horizons:
                size += frame.size  # type: ignore[union-attr]
            else:
                size += CONTROL_FRAME_BYTES
        self._free_us = free_us = max(free_us, now_us) + size * 1e6 / self._bytes_s
        if size >= _BATCH_BYTES and outbox:
            self._queue(port)
            if not self._is_waiting:
                self._wait()
        port.member.receive(port, frames, int(free_us) + _LATENCY_US)


class Port:
    """One connection of a member as its broker sees it: both the end and the wire that leads to it."""

    __slots__ = (
        "begun",
        "broker",
        "is_open",
        "is_queued",
        "member",
        "names",
        "node",
        "number",
        "outbox",
        "outward",
        "peer",
        "port",
        "session",
        "streams",
    )

    def __init__(self, member: Member, broker: SimBroker, port: OutputPort, session: int) -> None:
        self.member, self.broker, self.port = member, broker, port
        self.session = session
        """The migration that it was opened for."""
        self.number = 0
        self.outbox: Outbox | None = None
        self.is_open = True
        self.is_queued = False
        self.begun: dict[str, None] = {}
        self.names: dict[int, str] = {}
        self.streams: dict[int, _Stream] = {}
        """By the pubend numbers that the broker has assigned."""
        # A broker's shell expects an end to have a peer and a wire: this object is both, too.
        self.peer = self.outward = self
        self.node = member

    def attach(self, outbox: Outbox) -> None:
        """Send from this outbox from now on."""
        self.outbox = outbox

    def wake(self) -> None:
        """Notice that the outbox has something to send."""
        self.port.wake(self)

    def check_invariants(self) -> None:
        """Nothing to check."""

    def close(self) -> None:
        """End the connection for the broker, after what is queued."""
        outbox = self.outbox
        if outbox is not None and self.is_open:
            self.member.receive(self, outbox.take(1 << 30), self.member.clock.now_us)
        self._gone()

    def abort(self, *, loud: bool) -> None:
        """End the connection, as the broker has crashed; members find out at once, loud or not."""
        assert isinstance(loud, bool)
        self._gone()

    def _gone(self) -> None:
        if self.is_open:
            self.is_open = False
            self.member.on_gone(self)


class Member:
    """A subscriber with one subscription."""

    __slots__ = (
        "arrived_us",
        "away",
        "brokers",
        "clock",
        "control",
        "current",
        "moves",
        "name",
        "overlay",
        "ports",
        "selector",
        "starts",
        "streams",
        "trail",
        "twice",
    )

    def __init__(
        self, name: str, selector: str, *, clock: Clock, brokers: dict[str, tuple[SimBroker, OutputPort]]
    ) -> None:
        """A subscriber that can reach these brokers."""
        self.name, self.selector, self.clock, self.brokers = name, selector, clock, brokers
        self.overlay = ""
        self.current: Port | None = None
        self.ports: dict[int, Port] = {}
        """By migration: connections that are open, but not the current one yet."""
        self.starts: dict[str, int] = {}
        """By pubend: the tick at which it began."""
        self.streams: dict[str, _Stream] = {}
        """By pubend: its position, and the ticks it received."""
        self.arrived_us = 0
        """When the last message arrived."""
        self.trail: list[tuple[int, str]] = []
        """The brokers it came to, and when."""
        self.moves = self.control = self.away = self.twice = 0
        """Migrations; frames sent and received for them; losses of its broker; deliveries that came twice."""

    @property
    def broker(self) -> str:
        """The broker it is at; empty if it has none."""
        return self.current.broker.name if self.current else ""

    @property
    def positions(self) -> dict[str, int]:
        """By pubend: the first tick that it does not have."""
        return {name: each.position for name, each in self.streams.items() if each.position != _NOWHERE}

    @property
    def ticks(self) -> dict[str, array[int]]:
        """By pubend: the ticks it received, in order."""
        return {name: each.ticks for name, each in self.streams.items() if each.ticks}

    @property
    def is_subscribed(self) -> bool:
        """Whether its subscription is in force."""
        return bool(self.starts)

    def join(self, broker: str) -> None:
        """Connect, for the first time or again."""
        self.current = self._open(broker, 0)

    # --- what brokers say

    def receive(self, port: Port, frames: list[Frame], arrival_us: int) -> None:
        """Take frames that were just sent, and arrive at this time."""
        for frame in frames:
            if type(frame) is not Deliver:
                self._on_other(port, frame, arrival_us)
                continue
            # Inlined: this is the hottest path of the balancing experiments.
            stream, output = port.streams[frame.pubend], port.port
            for tick in frame.ticks:
                if tick < stream.position:
                    # Already came over the other connection: the client library drops it, too.
                    self.twice += 1
                    continue
                stream.position = tick + 1
                stream.ticks.append(tick)
                self.arrived_us = arrival_us
                output.delivered += 1
                output.delay_us += arrival_us - (tick >> 16) * 1_000

    def on_gone(self, port: Port) -> None:
        """Handle a lost connection; if it was to a new broker, the member stays where it was."""
        if port is self.current:
            self.current = None
            self.away += 1
            if not self.ports:
                self.clock.after(500_000, self._come_back)
        elif self.ports.get(port.session) is port:
            del self.ports[port.session]
            if self.current is not None:
                self._say(self.current, MoveFailed(port.session, "the new broker was lost"), self.clock.now_us)
            else:
                self.clock.after(500_000, self._come_back)

    def _come_back(self) -> None:
        if self.current is None and not self.ports:
            name = self.trail[-1][1]
            if self.brokers[name][0].is_up:
                self.join(name)
            else:
                self.clock.after(1_000_000, self._come_back)

    def _stream(self, pubend: str) -> _Stream:
        found = self.streams.get(pubend)
        if found is None:
            found = self.streams[pubend] = _Stream()
        return found

    def _on_other(self, port: Port, frame: Frame, arrival_us: int) -> None:
        if type(frame) is Horizons:
            self._on_horizons(port, frame)
        else:
            self._on_control(port, frame, arrival_us)

    def _on_horizons(self, port: Port, frame: Horizons) -> None:
        pubend = port.names[frame.pubend]
        if frame.is_only:
            port.begun[pubend] = None
        elif pubend not in port.begun or frame.numbers:
            return
        stream = port.streams[frame.pubend]
        stream.position = max(stream.position, frame.tick)

    def _on_control(self, port: Port, frame: Frame, arrival_us: int) -> None:
        if isinstance(frame, PubendNames):
            port.names.update(frame.names)
            port.streams.update({number: self._stream(name) for number, name in port.names.items()})
        elif isinstance(frame, Welcome):
            stated = tuple(self.positions.items())
            self._say(port, Subscribe(_NUMBER, self.selector, stated, resumes=bool(self.starts)), arrival_us)
        elif isinstance(frame, Subscribed):
            self._on_subscribed(port, frame, arrival_us)
        elif isinstance(frame, Migrate):
            self._on_migrate(frame, arrival_us)
        elif isinstance(frame, Heartbeat):
            self._say(port, Heartbeat(0), arrival_us)
            if port is self.current:
                self._acknowledge(port, arrival_us)
        else:
            assert isinstance(frame, Goodbye), f"a {type(frame).__name__} is not for members"

    def _on_subscribed(self, port: Port, frame: Subscribed, arrival_us: int) -> None:
        for pubend, tick in frame.starts:
            self.starts.setdefault(pubend, tick)
            stream = self._stream(pubend)
            if stream.position == _NOWHERE:
                stream.position = tick
        if port is self.current and (not self.trail or self.trail[-1][1] != port.broker.name):
            self.trail.append((arrival_us, port.broker.name))
        if port.session in self.ports and not frame.pending:
            self._move(port, arrival_us)

    def _on_migrate(self, frame: Migrate, arrival_us: int) -> None:
        self.control += 1
        self.clock.at(arrival_us, lambda: self._go(frame))

    def _go(self, frame: Migrate) -> None:
        if self.current is None:
            return
        if not self.brokers[frame.broker][0].is_up:
            self._say(self.current, MoveFailed(frame.session, "nobody is there"), self.clock.now_us)
        elif not self.ports:
            self.ports[frame.session] = self._open(frame.broker, frame.session)

    def _move(self, port: Port, arrival_us: int) -> None:
        """Complete a migration, once the new broker has the subscription: tell both; the old one disconnects."""
        del self.ports[port.session]
        former, self.current = self.current, port
        self.moves += 1
        self.trail.append((arrival_us, port.broker.name))
        self._say(port, Moved(port.session), arrival_us)
        if former is not None:
            self._say(former, Moved(port.session), arrival_us)
        self.control += 2

    # --- what it says

    def _open(self, broker: str, session: int) -> Port:
        shell, output = self.brokers[broker]
        port = Port(self, shell, output, session)
        if session:
            # Hello, Welcome, names, Subscribe, Subscribed, Goodbye.
            self.control += 6
        # As the shell of a link does: the broker hears of the connection first, and then who it is.
        shell.on_connected(port, dialled="")  # type: ignore[arg-type] # what it asks of an end is here
        self._say(
            port, Hello(PROTOCOL_VERSION, "client", self.name, self.overlay, migration=session), self.clock.now_us
        )
        return port

    def _acknowledge(self, port: Port, arrival_us: int) -> None:
        numbers = {name: number for number, name in port.names.items()}
        known = tuple((numbers[name], tick) for name, tick in self.positions.items() if name in numbers)
        if known:
            self._say(port, Acknowledge(known), arrival_us)

    def _say(self, port: Port, frame: ControlFrame, at_us: int) -> None:
        def arrive() -> None:
            if port.is_open and port.broker.is_up:
                port.broker.on_frames(port, [frame])  # type: ignore[arg-type]

        self.clock.at(at_us + _LATENCY_US, arrive)
