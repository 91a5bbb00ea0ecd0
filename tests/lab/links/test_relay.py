"""The relay itself, in a thread beside the test: complete and in order, held back, cut loudly and silently."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from select import select

import pytest

from penstock.lab.demo_overlay import free_ports
from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.relay import Command, Relay, RelayPlan

LIMIT_S = 30.0
"""Time after which a test gives up; nothing is judged by the clock."""


class Bench:
    """A relay that runs, and a server behind it."""

    def __init__(self, limits: LinkLimits) -> None:
        self.port, self.target_port = free_ports(2)
        self.server = socket.create_server(("127.0.0.1", self.target_port))
        self.server.settimeout(LIMIT_S)
        self.relay = Relay(RelayPlan(self.port, self.target_port, limits))
        self._ears, self._mouth = os.pipe()
        self._commands: list[Command] = []
        self._is_over = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def say(self, command: Command) -> None:
        """Give a command, and wait until it was obeyed."""
        self._done.clear()
        self._commands.append(command)
        os.write(self._mouth, b"x")
        assert self._done.wait(LIMIT_S)

    def dial(self) -> tuple[socket.socket, socket.socket]:
        """Both ends of a connection through the relay."""
        near = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)
        far, _ = self.server.accept()
        far.settimeout(LIMIT_S)
        return near, far

    def refuses(self) -> bool:
        """Whether a new connection is reset; that may be noticed while it is being made."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S) as near:
                near.recv(1)
        except ConnectionResetError:
            return True
        return False

    def until(self, condition: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(int(LIMIT_S / 0.01)):
            if condition():
                return
            pause.wait(0.01)
        raise AssertionError("waited in vain")

    def close(self) -> None:
        self._is_over = True
        os.write(self._mouth, b"x")
        self._thread.join(LIMIT_S)
        self.relay.close()
        self.server.close()
        for each in (self._ears, self._mouth):
            os.close(each)

    def _run(self) -> None:
        while not self._is_over:
            if self.relay.turn(self._ears):
                os.read(self._ears, 1)
                if self._commands:
                    self.relay.obey(self._commands.pop())
                    self._done.set()


@contextmanager
def bench(**limits: float) -> Iterator[Bench]:
    made = Bench(LinkLimits(**limits))  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


def exactly(far: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        data = far.recv(size - len(got))
        assert data, f"the end came after {len(got)} bytes"
        got += data
    return got


def send_all(near: socket.socket, data: bytes) -> threading.Thread:
    sender = threading.Thread(target=near.sendall, args=(data,))
    sender.start()
    return sender


@pytest.mark.parametrize(
    "limits",
    [{}, {"there_bytes_s": 2e6}, {"there_bytes_s": 2e6, "delay_ms": 5.0, "buffer_bytes": 20_000}, {"buffer_bytes": 1}],
)
def test_all_bytes_pass_in_order_both_ways(limits: dict[str, float]) -> None:
    size = 3_000 if limits.get("buffer_bytes") == 1 else 400_000
    there, back = Random(1).randbytes(size), Random(2).randbytes(1_000)
    with bench(**limits) as made:
        near, far = made.dial()
        with near, far:
            sender = send_all(near, there)
            assert exactly(far, len(there)) == there
            far.sendall(back)
            assert exactly(near, len(back)) == back
            sender.join(LIMIT_S)
        made.until(lambda: made.relay.figures.connections == 0)
        assert made.relay.figures.passed_bytes == {"there": len(there), "back": len(back)}


def test_the_end_of_one_direction_leaves_the_other_open() -> None:
    with bench() as made:
        near, far = made.dial()
        with near, far:
            near.sendall(b"question")
            near.shutdown(socket.SHUT_WR)
            assert (exactly(far, 8), far.recv(1)) == (b"question", b"")
            far.sendall(b"answer")
            assert exactly(near, 6) == b"answer"


def test_a_sender_has_to_wait_when_nothing_passes_and_little_is_held() -> None:
    with bench(buffer_bytes=16_384) as made:
        near, far = made.dial()
        with near, far:
            made.say(Command(cut="silent"))
            near.settimeout(0)
            accepted = 0
            while accepted < 4_000_000 and select([], [near], [], 0.5)[1]:
                accepted += near.send(bytes(50_000))
            # On loopback without a relay this is several megabytes.
            assert accepted < 500_000
            made.say(Command(cut=""))
            assert exactly(far, accepted) == bytes(accepted)


def test_limits_change_while_bytes_are_under_way() -> None:
    data = Random(3).randbytes(10_000)
    with bench() as made:
        near, far = made.dial()
        with near, far:
            made.say(Command(limits=LinkLimits(there_bytes_s=0.001)))
            near.sendall(data)
            made.until(lambda: made.relay.figures.held_bytes["there"] == len(data))
            assert made.relay.figures.passed_bytes["there"] == 0
            far.sendall(b"back is free")
            assert exactly(near, 12) == b"back is free"
            made.say(Command(limits=LinkLimits()))
            assert exactly(far, len(data)) == data


def test_a_loud_cut_resets_connections_and_refuses_new_ones_until_it_is_restored() -> None:
    with bench() as made:
        near, far = made.dial()
        with near, far:
            made.say(Command(cut="loud"))
            for each in (near, far):
                with pytest.raises(ConnectionResetError):
                    each.recv(1)
        assert made.refuses()
        made.say(Command(cut=""))
        near, far = made.dial()
        with near, far:
            near.sendall(b"again")
            assert exactly(far, 5) == b"again"


def test_a_silent_cut_tells_nobody_and_loses_nothing() -> None:
    with bench() as made:
        near, far = made.dial()
        with near, far:
            made.say(Command(cut="silent"))
            near.sendall(b"held")
            late = socket.create_connection(("127.0.0.1", made.port), timeout=LIMIT_S)
            late.sendall(b"late")
            assert not select([far, made.server], [], [], 0.1)[0]
            made.say(Command(cut=""))
            assert exactly(far, 4) == b"held"
            behind, _ = made.server.accept()
            with late, behind:
                behind.settimeout(LIMIT_S)
                assert exactly(behind, 4) == b"late"
            assert made.relay.figures.accepted == 2


def test_who_dials_while_nobody_listens_behind_is_reset() -> None:
    with bench() as made:
        made.server.close()
        assert made.refuses()
        assert made.relay.figures.accepted == 0


def test_a_peer_that_breaks_off_breaks_the_other_end_off() -> None:
    with bench() as made:
        near, far = made.dial()
        with far:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            near.close()
            with pytest.raises(ConnectionResetError):
                far.recv(1)
        made.until(lambda: made.relay.figures.connections == 0)
