"""Connections to brokers of other protocols: what subscribers and publishers have in common, whatever they speak."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bench.live_driver import DriverError, Sender
from bench.live_load import STAMP

__all__ = ["UNBOUNDED", "PeerPublisher", "PeerReceiver", "connected", "exchange"]

UNBOUNDED: Final = 1 << 62
"""The credit of a publisher whose protocol has no acknowledgements: the connection itself holds it back."""
_BUFFER_BYTES: Final = 1024 * 1024
_SETUP_S: Final = 120.0


def connected(port: int) -> socket.socket:
    """A connection to a broker on this machine."""
    made = socket.create_connection(("127.0.0.1", port), timeout=_SETUP_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def exchange(connection: socket.socket, request: bytes, is_answered: Callable[[bytes], bool]) -> bytes:
    """Send a request during the setup, and read until it is answered; returns everything read."""
    connection.sendall(request)
    answer = b""
    while not is_answered(answer):
        data = connection.recv(_BUFFER_BYTES)
        if not data:
            raise DriverError(f"the broker closed the connection after {answer[-300:]!r}")
        answer += data
    return answer


class PeerReceiver(ABC):
    """A subscriber that counts what it receives."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        self.socket = connection
        self._rest = b""

    @abstractmethod
    def deliveries(self, buffer: bytearray, end: int) -> tuple[int, list[int]]:
        """Where the last whole frame ends, and where the payload of each delivery before that ends."""

    def scan(self, buffer: bytearray, view: memoryview, latencies_ns: list[int] | None) -> int:
        """Read what is there and return the number of deliveries; with a list, add the latency of each message."""
        start = len(self._rest)
        buffer[:start] = self._rest
        end = start + self.count(view[start:])
        now_ns = time.time_ns()
        place, payload_ends = self.deliveries(buffer, end)
        if latencies_ns is not None:
            stamps = (STAMP.unpack_from(buffer, each - STAMP.size)[0] for each in payload_ends)
            latencies_ns.extend(now_ns - stamp for stamp in stamps)
        self._rest = bytes(view[place:end])
        return len(payload_ends)

    def count(self, view: memoryview) -> int:
        """Read what is there and return the number of bytes."""
        count = self.socket.recv_into(view)
        if not count:
            raise DriverError("the broker closed the connection of a subscriber")
        return count


class PeerPublisher(Sender):
    """A publisher without acknowledgements; protocols that have them override ``acknowledged`` and ``on_data``."""

    def __init__(self, connection: socket.socket, *, credit: int = UNBOUNDED) -> None:
        super().__init__(connection, credit=credit)

    @property
    def acknowledged(self) -> int:
        """Messages that the broker has acknowledged: those sent, as nothing else is known."""
        return self.sent

    def ask(self) -> None:
        """Ask for an acknowledgement: brokers that acknowledge do so unasked."""

    def on_readable(self) -> None:
        """Read what the broker sends to a publisher."""
        with suppress(BlockingIOError):
            data = self.socket.recv(_BUFFER_BYTES)
            if not data:
                raise DriverError("the broker closed the connection of a publisher")
            self.on_data(data)

    def on_data(self, data: bytes) -> None:
        """Process what the broker sent: nothing is expected, so nothing is done."""
