"""One STOMP connection as a client without a library has it: frames over a socket, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, cast

from penstock.protocol.stomp import SERVER_COMMANDS, StompError, StompFrame, StompReader, Version, encode

__all__ = ["Line", "LineOwner"]

_HOST: Final = "127.0.0.1"
_VERSION: Final = Version.V1_2


class LineOwner(Protocol):
    """Who gets the frames of a connection."""

    def on_frame(self, line: Line, frame: StompFrame) -> None:
        """The broker sent a frame."""


class Line(asyncio.Protocol):
    """A connection, from ``open`` until ``ended`` is done; what arrived before its end was handed to its owner."""

    def __init__(self, owner: LineOwner) -> None:
        self.ended: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._owner = owner
        self._reader = StompReader(commands=SERVER_COMMANDS)
        self._reader.version = _VERSION
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int, owner: LineOwner) -> Line:
        """Connect to a port of this machine; raises ``OSError``."""
        _, line = await asyncio.get_running_loop().create_connection(lambda: cls(owner), _HOST, port)
        return line

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return not self.ended.done() and self._transport is not None and not self._transport.is_closing()

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        """Send a frame; one for a connection that has just ended is lost, as on any network."""
        if self._transport is not None:
            self._transport.write(encode(StompFrame(command, headers, body), _VERSION))

    def abort(self) -> None:
        """End the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # A cast, not an assert: uvloop's transports quack like asyncio's but do not inherit from them.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand frames to the owner; if they are not as they must be, whoever waits for the end hears of it."""
        try:
            for frame in self._reader.feed(data):
                self._owner.on_frame(self, frame)
        except (StompError, LookupError, ValueError) as error:
            if not self.ended.done():
                self.ended.set_exception(error)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for the end."""
        del exc
        if not self.ended.done():
            self.ended.set_result(None)
