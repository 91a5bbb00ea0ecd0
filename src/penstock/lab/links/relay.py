"""A link in user space: a process that relays TCP connections from one port to another, no faster than allowed.

It needs no privileges. Its own buffer and those of the kernel hold little, so that TCP soon makes the sender wait.
Commands come as lines of JSON on standard input, and each is answered by a line of figures on standard output. The
relay ends when standard input does, so it does not outlive its parent.

A cut is loud (connections are reset, new ones too) or silent (nothing passes, and neither end is told).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any, Final

import msgspec

from penstock.lab.links.limits import DIRECTIONS, LinkLimits
from penstock.lab.links.pipe import Pipe, TokenBucket

__all__ = ["Command", "Figures", "Relay", "RelayPlan", "main"]

_HOST: Final = "127.0.0.1"
_KERNEL_BYTES: Final = 4_096
"""Kernel buffer requested for each socket of the relay; Linux doubles it."""
_SEGMENT_BYTES: Final = 1_400
"""Loopback's segments of 64 KiB would make the other end's kernel grow its buffer, and hide megabytes there."""
_DIAL_S_MAX: Final = 5.0
_NO_LINGER: Final = b"\x01\x00\x00\x00\x00\x00\x00\x00"


class RelayPlan(msgspec.Struct, frozen=True):
    """Where a relay listens, where it dials, and its initial limits."""

    port: int
    target_port: int
    limits: LinkLimits


class Command(msgspec.Struct, frozen=True):
    """A command to the relay: change its limits, cut or restore it, or only report its figures."""

    limits: LinkLimits | None = None
    cut: str | None = None
    """``loud``, ``silent``, or empty to restore."""


class Figures(msgspec.Struct, frozen=True):
    """Bytes that the relay has passed on and holds, by direction, and its connections."""

    passed_bytes: dict[str, int]
    held_bytes: dict[str, int]
    connections: int
    accepted: int


@dataclass(slots=True, eq=False)
class _Half:
    """One direction of a connection: its source, the bytes in transit, and its sink."""

    direction: str
    source: socket.socket
    sink: socket.socket
    pipe: Pipe
    is_shut: bool = False


class Relay:
    """Relays all connections of one link."""

    def __init__(self, plan: RelayPlan) -> None:
        now_s = time.monotonic()
        self.limits = plan.limits
        self._target_port = plan.target_port
        self._buckets = {
            each: TokenBucket(plan.limits.rate(each), plan.limits.burst_bytes(each), now_s=now_s) for each in DIRECTIONS
        }
        self._halves: list[_Half] = []
        self._passed = dict.fromkeys(DIRECTIONS, 0)
        self._cut = ""
        self._accepted = 0
        self._listener = _small_socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((_HOST, plan.port))
        self._listener.listen()
        self._listener.setblocking(False)  # noqa: FBT003 - the standard library's signature

    @property
    def figures(self) -> Figures:
        """The relay's current figures."""
        held = {each: sum(half.pipe.held_bytes for half in self._of(each)) for each in DIRECTIONS}
        passed = {each: self._passed[each] + sum(h.pipe.passed_bytes for h in self._of(each)) for each in DIRECTIONS}
        return Figures(passed, held, len(self._halves) // 2, self._accepted)

    def obey(self, command: Command) -> None:
        """Carry out a command."""
        if command.limits is not None:
            self._limit(command.limits)
        if command.cut is not None:
            self._cut = command.cut
            if self._cut == "loud":
                for half in list(self._halves):
                    self._abort(half)

    def close(self) -> None:
        """End all connections."""
        for half in list(self._halves):
            self._abort(half)
        self._listener.close()

    def turn(self, commands: int) -> bool:
        """Wait for something to do, and do it; return whether there is a command to read."""
        now_s = time.monotonic()
        # Made again every turn: the events to wait for change all the time, and a link has few connections.
        with DefaultSelector() as selector:
            selector.register(commands, EVENT_READ)
            if self._cut != "silent":
                selector.register(self._listener, EVENT_READ)
            wait_s = self._register(selector, now_s)
            ready = {key.fileobj: mask for key, mask in selector.select(wait_s)}
        if self._listener in ready:
            self._accept()
        if self._cut != "silent":
            for half in list(self._halves):
                if half in self._halves:
                    self._pump(half, can_read=bool(ready.get(half.source, 0) & EVENT_READ))
        return commands in ready

    def _of(self, direction: str) -> list[_Half]:
        return [half for half in self._halves if half.direction == direction]

    def _limit(self, limits: LinkLimits) -> None:
        self.limits, now_s = limits, time.monotonic()
        for direction, bucket in self._buckets.items():
            bucket.change(limits.rate(direction), limits.burst_bytes(direction), now_s=now_s)
        for half in self._halves:
            half.pipe.delay_s = limits.delay_ms / 1_000

    def _register(self, selector: DefaultSelector, now_s: float) -> float | None:
        """Register the events to wait for, and return how long to wait at most."""
        if self._cut == "silent":
            return None
        events: dict[socket.socket, int] = {}
        waits_s: list[float] = []
        for half in self._halves:
            if half.pipe.room_bytes > 0:
                events[half.source] = events.get(half.source, 0) | EVENT_READ
            wait_s = half.pipe.wait_s(now_s=now_s)
            if wait_s == 0.0:
                events[half.sink] = events.get(half.sink, 0) | EVENT_WRITE
            elif wait_s is not None:
                waits_s.append(wait_s)
        for each, mask in events.items():
            selector.register(each, mask)
        return min(waits_s, default=None)

    def _accept(self) -> None:
        try:
            near, _ = self._listener.accept()
        except OSError:
            return
        if self._cut:
            _reset(near)
            return
        far = _small_socket()
        far.settimeout(_DIAL_S_MAX)
        try:
            far.connect((_HOST, self._target_port))
        except OSError:
            # The dialling broker sees what it would see without a relay: nobody is there.
            far.close()
            _reset(near)
            return
        self._accepted += 1
        for each in (near, far):
            each.setblocking(False)  # noqa: FBT003 - the standard library's signature
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for direction, source, sink in (("there", near, far), ("back", far, near)):
            pipe = Pipe(
                self._buckets[direction],
                buffer_bytes=self.limits.buffer_bytes,
                delay_s=self.limits.delay_ms / 1_000,
            )
            self._halves.append(_Half(direction, source, sink, pipe))

    def _pump(self, half: _Half, *, can_read: bool) -> None:
        pipe, now_s = half.pipe, time.monotonic()
        try:
            if can_read and pipe.room_bytes > 0:
                data = half.source.recv(pipe.room_bytes)
                if data:
                    pipe.put(data, now_s=now_s)
                else:
                    pipe.has_ended = True
            if data := pipe.look(now_s=now_s):
                pipe.passed(half.sink.send(data))
            if pipe.has_ended and not pipe.held_bytes and not half.is_shut:
                half.is_shut = True
                half.sink.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            self._abort(half)
            return
        if half.is_shut:
            self._close_if_over(half)

    def _close_if_over(self, half: _Half) -> None:
        halves = self._both(half)
        if all(each.is_shut for each in halves):
            self._forget(halves)
            half.source.close()
            half.sink.close()

    def _abort(self, half: _Half) -> None:
        if half in self._halves:
            self._forget(self._both(half))
            _reset(half.source)
            _reset(half.sink)

    def _both(self, half: _Half) -> list[_Half]:
        return [each for each in self._halves if each.source in (half.source, half.sink)]

    def _forget(self, halves: list[_Half]) -> None:
        for each in halves:
            self._passed[each.direction] += each.pipe.passed_bytes
            self._halves.remove(each)


def main() -> None:
    """Run a relay by the plan in the first argument until standard input ends."""
    # The parent ends the relay; Ctrl-C at the terminal is meant for the parent.
    relay = Relay(msgspec.json.decode(sys.argv[1], type=RelayPlan))
    _answer(relay)
    commands, rest = sys.stdin.fileno(), b""
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while True:
            if relay.turn(commands):
                data = os.read(commands, 65_536)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    relay.obey(msgspec.json.decode(line, type=Command))
                    _answer(relay)
    relay.close()


def _answer(relay: Relay) -> None:
    os.write(sys.stdout.fileno(), msgspec.json.encode(relay.figures) + b"\n")


def _small_socket() -> Any:
    made = socket.socket()
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, option, _KERNEL_BYTES)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES)
    return made


def _reset(ended: socket.socket) -> None:
    """Close so that the other end sees a reset."""
    with suppress(OSError):
        ended.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    ended.close()
