"""Drives the attacker's end of a STOMP connection, over TCP or WebSocket."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Any, Final, Self

from bench.hostile.wire import Line, Rejected
from bench.stomp.websocket import BINARY, CLOSE, WebFrames, web_frame
from penstock.protocol.stomp import SERVER_COMMANDS, StompError, StompFrame, StompLimits, StompReader, Version, encode

__all__ = ["StompLine", "WebLine", "frame"]

_LIMITS: Final = StompLimits(headers_max=1_000, header_bytes_max=1 << 22, head_bytes_max=1 << 24)
_KEPT_MAX: Final = 20_000
_HEAD_END: Final = b"\r\n\r\n"


def frame(command: str, body: bytes = b"", /, **headers: str) -> bytes:
    """A frame of STOMP 1.2; underscores in the names of headers stand for hyphens, two of them for dots."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in headers.items()}
    return encode(StompFrame(command, named, body), Version.V1_2)


class StompLine(Line):
    """A connection to the STOMP port of a broker, and what was received on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard: list[StompFrame] = []
        """Received frames, the first of them."""
        self._frames = StompReader(_LIMITS, commands=SERVER_COMMANDS)
        super().__init__(reader, writer)

    @classmethod
    async def client(cls, port: int, name: str = "mallory", **headers: str) -> Self:
        """Connect; raises ``Rejected`` if the broker does not answer with CONNECTED."""
        line = await cls.dial(port)
        try:
            await line.begin()
            line.say("CONNECT", host="arena", accept_version="1.2", login=name, **headers)
            if await line.hear("CONNECTED") is None:
                raise Rejected(line.last_words())
        except BaseException:
            await line.close()
            raise
        return line

    async def begin(self) -> None:
        """Do what comes before the first frame."""

    def take(self, data: bytes) -> None:
        """Take frames of the broker."""
        try:
            for each in self._frames.feed(data):
                self._frames.version = Version.V1_2
                self.counts[each.command] += 1
                if len(self.heard) < _KEPT_MAX or each.command == "ERROR":
                    self.heard.append(each)
        except StompError as error:
            raise OSError(f"no STOMP: {error}") from None

    def say(self, command: str, body: bytes = b"", /, **headers: Any) -> None:
        """Send a frame."""
        self.send_stomp(frame(command, body, **headers))

    def send_stomp(self, data: bytes) -> None:
        """Send bytes as a STOMP client would."""
        self.send_bytes(data)

    async def hear(self, command: str, seconds: float = 10.0) -> StompFrame | None:
        """Wait for the first frame with this command; None if the connection or the time is over."""
        await self.until(lambda: self.counts[command] > 0, seconds)
        return next((each for each in self.heard if each.command == command), None)

    def last_words(self) -> str:
        """Why the broker ended the connection, or that it did not."""
        errors = [each.headers["message"] for each in self.heard if each.command == "ERROR"]
        if errors:
            return errors[-1]
        return "cut off without a word" if self.is_over else "still connected"


class WebLine(StompLine):
    """The same over WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._head: bytes | None = b""
        """The answer to the handshake, as far as it is there; None once all of it was."""
        self._web = WebFrames()
        super().__init__(reader, writer)

    async def begin(self) -> None:
        """Shake hands."""
        self.send_bytes(self.request())
        await self.until(lambda: self._head is None)

    @staticmethod
    def request() -> bytes:
        """What opens a WebSocket."""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ("GET / HTTP/1.1", "Host: arena", "Upgrade: websocket", "Connection: Upgrade")
        more = (f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: v12.stomp")
        return "".join(f"{each}\r\n" for each in (*lines, *more, "")).encode()

    def take(self, data: bytes) -> None:
        """Take the answer to the handshake, then frames."""
        if self._head is not None:
            head, found, data = (self._head + data).partition(_HEAD_END)
            if not found:
                self._head = head
                return
            if not head.startswith(b"HTTP/1.1 101 "):
                raise OSError(f"refused: {head[:100]!r}")
            self._head = None
        self._web.feed(data)
        while (each := self._web.next()) is not None:
            opcode, payload = each
            self.counts[f"opcode {opcode}"] += 1
            if opcode == CLOSE:
                self.counts["closed"] = int.from_bytes(payload[:2])
            elif opcode < CLOSE and payload:
                super().take(payload)

    def send_stomp(self, data: bytes) -> None:
        """Send it as one message."""
        self.send_bytes(web_frame(BINARY, data))
