"""Links between simulated nodes: a cable, the connections over it, and the dialling that keeps one of them up.

A connection behaves like TCP: in order and without loss until it breaks; then what it held is lost. A silent cut is a
pulled cable: neither side is told, and after healing a connection that survived it is reset, as bytes are missing. A
stall only delays: what was in flight arrives after healing. (Loss of single data frames is an option of the link.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Protocol

from penstock.protocol.frames import Frame
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.wire import LinkOptions, Source, Wire

__all__ = ["Call", "ClientLink", "Dialling", "End", "Link", "Node", "Visitor"]

_STABLE_US: Final = 1_000_000
"""A connection that lasted this long was a success: the next attempt comes soon again."""
_KNOCK_US: Final = 1_000_000
"""How often an attempt over a broken cable is repeated, as TCP does, until the caller gives it up."""


@dataclass(slots=True, frozen=True)
class Dialling:
    """How often to dial when a link should be up."""

    first_ms: int = 100
    """Wait after the first failure; doubled after each further one."""
    longest_ms: int = 5_000
    """The longest wait."""

    def wait_us(self, failures: int, rng: Random) -> int:
        """The wait after this many failures in a row, with jitter so that nodes that lost one peer dial out of step."""
        longest_us = 1_000 * min(self.longest_ms, self.first_ms << min(failures, 20))
        return longest_us // 2 + rng.randrange(longest_us // 2 + 1)


class Node(Protocol):
    """The node at an end of a link: a broker or a client."""

    name: str
    host: Host

    @property
    def is_up(self) -> bool:
        """Whether it runs."""

    def on_connected(self, end: End, *, dialled: str) -> None:
        """A connection is up; ``dialled`` names the other side if this one asked for it."""

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        """Frames arrived."""

    def on_lost(self, end: End) -> None:
        """The connection is gone."""


class End:
    """One side of a connection."""

    __slots__ = ("_is_draining", "_on_closed", "inward", "is_open", "node", "number", "outward", "peer")

    def __init__(self, node: Node, on_closed: Callable[[], None]) -> None:
        self.node = node
        self.number = 0
        """The key of the node's own record of the connection."""
        self.is_open = True
        """Whether this side still takes part."""
        self.peer: End
        """The other side of the connection."""
        self.outward: Wire
        """The wire that carries this side's frames."""
        self.inward: Wire
        """The wire that brings the other side's frames."""
        self._on_closed = on_closed
        self._is_draining = False

    def attach(self, source: Source) -> None:
        """Send from this outbox from now on."""
        self.outward.attach(source)

    def wake(self) -> None:
        """Notice that the outbox has something to send."""
        self.outward.wake()

    def close(self) -> None:
        """End the connection after sending what is queued; the node hears no more of it."""
        if self.is_open:
            self._is_draining = True
            self._shut()
            self.outward.end()

    def abort(self, *, loud: bool) -> None:
        """End the connection at once, as a crash does; if loud, the other side is told, if it can be reached."""
        is_told = loud and not self.outward.is_dead
        self.outward.kill()
        self._shut()
        if is_told:
            self.peer.lose()

    def lose(self) -> None:
        """Tell the node that the connection is gone."""
        if self.is_open:
            self.outward.kill()
            self._shut()
            self.node.on_lost(self)

    def deliver(self, frames: list[Frame]) -> None:
        """Hand arrived frames to the node."""
        if self.is_open:
            self.node.on_frames(self, frames)
        elif self.node.is_up and not self._is_draining:
            # A restarted host does not know the connection, and says so.
            self.peer.lose()

    def _shut(self) -> None:
        if self.is_open:
            self.is_open = False
            self._on_closed()


class Link:
    """A cable between two nodes, one of which dials the other whenever there is no connection."""

    def __init__(
        self,
        clock: Clock,
        rng: Random,
        caller: Node,
        callee: Node,
        *,
        options: LinkOptions | None = None,
        dialling: Dialling | None = None,
    ) -> None:
        self._clock, self._rng = clock, rng
        self.caller, self.callee = caller, callee
        self.options = options or LinkOptions()
        self._dialling = dialling or Dialling()
        self._open: dict[int, tuple[End, End]] = {}
        self._serial = self._failures = self._since_us = 0
        self._is_dialling = self._is_wanted = False
        self._is_stalled = False
        # Direction by direction: from the caller to the callee, and back.
        self._is_cut = [False, False]

    @property
    def is_connected(self) -> bool:
        """Whether the caller holds a connection."""
        return any(near.is_open for near, _ in self._open.values())

    @property
    def is_wanted(self) -> bool:
        """Whether the caller wants a connection."""
        return self._is_wanted

    @property
    def is_whole(self) -> bool:
        """Whether the cable carries in both directions."""
        return not any(self._is_cut) and not self._is_stalled

    def want(self) -> None:
        """Dial, and keep dialling whenever there is no connection."""
        self._is_wanted = True
        if not self.is_connected:
            self._failures = 0
            self._dial_after(0)

    def unwant(self) -> None:
        """Stop dialling; an existing connection stays."""
        self._is_wanted = False

    def cut(self, *, loud: bool = False, forward: bool = True, backward: bool = True) -> None:
        """Break the cable, in one direction or both; what is in flight is lost. If loud, both ends are told."""
        self._is_cut = [self._is_cut[0] or forward, self._is_cut[1] or backward]
        for ends in list(self._open.values()):
            for end, direction_cut in zip(ends, (forward, backward), strict=True):
                if direction_cut:
                    end.outward.kill()
            if loud:
                self._reset(ends)

    def stall(self) -> None:
        """Deliver nothing in either direction until healed, but lose nothing."""
        self._is_stalled = True
        for ends in self._open.values():
            for end in ends:
                end.outward.hold()

    def slow_down(self, latency_us: int) -> None:
        """Change the latency from now on, also for existing connections; order is kept."""
        self.options = replace(self.options, latency_us=latency_us)
        for wire in self.wires():
            wire.latency_us = latency_us

    def heal(self) -> None:
        """Carry again; connections that lost something are reset, stalled ones continue."""
        was_cut = any(self._is_cut)
        self._is_cut, self._is_stalled = [False, False], False
        for ends in list(self._open.values()):
            if was_cut:
                self._reset(ends)
            else:
                for end in ends:
                    end.outward.resume()

    def wires(self) -> list[Wire]:
        """The wires of all connections, from the caller and back in turn."""
        return [end.outward for ends in self._open.values() for end in ends]

    def _reset(self, ends: tuple[End, End]) -> None:
        for end in ends:
            end.lose()

    def _dial_after(self, delay_us: int) -> None:
        if not self._is_dialling:
            self._is_dialling = True
            # A connection takes a round trip to make.
            self._clock.after(delay_us + 2 * self.options.latency_us, self._dial)

    def _dial(self) -> None:
        self._is_dialling = False
        if not self._is_wanted or self.is_connected or not self.caller.is_up:
            return
        if self.is_whole and self.callee.is_up:
            self._connect()
        else:
            self._redial()

    def _redial(self) -> None:
        self._dial_after(self._dialling.wait_us(self._failures, self._rng))
        self._failures += 1

    def _connect(self, number: int = 0) -> None:
        self._serial += 1
        serial = self._serial
        near = End(self.caller, lambda: self._on_caller_closed(serial))
        far = End(self.callee, lambda: self._forget(serial))
        _join(near, far, self._wire(far), self._wire(near))
        near.number = number
        self._open[serial] = (near, far)
        self._since_us = self._clock.now_us
        self.callee.on_connected(far, dialled="")
        self.caller.on_connected(near, dialled=self.callee.name)

    def _wire(self, to: End) -> Wire:
        return Wire(self._clock, self.options, self._rng, deliver=to.deliver, ended=to.lose, host=to.node.host)

    def _on_caller_closed(self, serial: int) -> None:
        self._forget(serial)
        if self._clock.now_us - self._since_us >= _STABLE_US:
            self._failures = 0
        if self._is_wanted:
            self._redial()

    def _forget(self, serial: int) -> None:
        """Drop a connection that neither side holds; what is still in flight has no receiver."""
        ends = self._open.get(serial)
        if ends is not None and not any(end.is_open for end in ends):
            del self._open[serial]


class Visitor(Node, Protocol):
    """A node that decides itself when to connect, and to whom: a client."""

    def wants(self, broker: str) -> bool:
        """Whether it is at this broker, or wants to be."""


class Call:
    """One attempt to connect, until it is answered or given up."""

    __slots__ = ("failed", "is_over", "number")

    def __init__(self, number: int, failed: Callable[[str], None]) -> None:
        self.number, self.failed = number, failed
        self.is_over = False


class ClientLink(Link):
    """A cable between a client and a broker, over which the client connects when it wants to."""

    def __init__(
        self, clock: Clock, rng: Random, caller: Visitor, callee: Node, *, options: LinkOptions | None = None
    ) -> None:
        super().__init__(clock, rng, caller, callee, options=options)
        self._visitor = caller

    @property
    def is_wanted(self) -> bool:
        """Whether the client is there, or wants to be."""
        return self._visitor.wants(self.callee.name)

    def call(self, number: int, failed: Callable[[str], None]) -> Call:
        """Try to connect, under the caller's number; over a broken cable, the call neither fails nor succeeds."""
        call = Call(number, failed)
        self._clock.after(2 * self.options.latency_us, lambda: self._answer(call))
        return call

    def _answer(self, call: Call) -> None:
        if call.is_over:
            return
        if not self.is_whole:
            self._clock.after(_KNOCK_US, lambda: self._answer(call))
            return
        call.is_over = True
        if self.callee.is_up:
            self._connect(call.number)
        else:
            call.failed("nobody listens there")


def _join(near: End, far: End, there: Wire, back: Wire) -> None:
    near.peer, far.peer = far, near
    near.outward = far.inward = there
    far.outward = near.inward = back
