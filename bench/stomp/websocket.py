"""Carries STOMP over WebSocket (RFC 6455) for the conformance script, which also sends what no library would."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from dataclasses import dataclass, field
from typing import Final

from bench.stomp.raw import GoneError, TcpTransport, UnmetError, shown

__all__ = ["BINARY", "CLOSE", "CONTINUATION", "PING", "PONG", "TEXT", "WebFrames", "WebSocketTransport", "web_frame"]

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HEAD_BYTES_MAX: Final = 16_384


@dataclass(slots=True)
class WebFrames:
    """Turns the bytes of a server into WebSocket frames."""

    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """The opcode and payload of the next whole frame; None if it is not there yet."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        if buffer[1] & 0x80:
            raise UnmetError("the server masks its frames")
        if buffer[0] & 0x70:
            raise UnmetError("the server sets reserved bits")
        length, start = buffer[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            if len(buffer) < start:
                return None
            (length,) = struct.unpack_from("!H" if start == 4 else "!Q", buffer, 2)
        if len(buffer) < start + length:
            return None
        frame = buffer[0] & 0x0F, bytes(buffer[start : start + length])
        del buffer[: start + length]
        return frame


class WebSocketTransport:
    """A WebSocket connection after its handshake; bytes are sent as frames of one kind."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        path: str,
        patience_s: float,
        protocols: str = "v12.stomp",
        origin: str = "",
        opcode: int = TEXT,
    ) -> None:
        self.tcp: Final = TcpTransport(*address, patience_s=patience_s)
        self.status = 0
        """The HTTP status of the handshake."""
        self.protocol = ""
        """The subprotocol that the server chose."""
        self.kinds: list[int] = []
        """The opcodes of all frames that came."""
        self.close_code = 0
        """Why the server closed, if it said so."""
        self._opcode = opcode
        self._frames = WebFrames()
        self._patience_s = patience_s
        self._shake_hands(address, path, protocols, origin)

    def send(self, data: bytes) -> None:
        """Send all of this in one frame."""
        self.tcp.send(web_frame(self._opcode, data))

    def receive(self, within_s: float) -> bytes:
        """The payload of the next frame that has one; pings are answered."""
        while True:
            frame = self._frames.next()
            if frame is None:
                data = self.tcp.receive(within_s)
                if not data:
                    return b""
                self._frames.feed(data)
                continue
            opcode, payload = frame
            self.kinds.append(opcode)
            if opcode == CLOSE:
                self.close_code = int.from_bytes(payload[:2])
                return b""
            if opcode == PING:
                self.tcp.send(web_frame(PONG, payload))
            elif opcode == PONG:
                return b""
            elif payload:
                return payload

    def pong(self, within_s: float) -> bool:
        """Whether the next thing that comes is a pong."""
        self.receive(within_s)
        return bool(self.kinds) and self.kinds[-1] == PONG

    def close(self) -> None:
        """End it, without a word."""
        self.tcp.close()

    def _shake_hands(self, address: tuple[str, int], path: str, protocols: str, origin: str) -> None:
        key = base64.b64encode(os.urandom(16))
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {address[0]}:{address[1]}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key.decode()}",
            "Sec-WebSocket-Version: 13",
        ]
        lines += [f"Sec-WebSocket-Protocol: {protocols}"] if protocols else []
        lines += [f"Origin: {origin}"] if origin else []
        self.tcp.send("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        head = self._head()
        status, *rest = head.decode(errors="replace").split("\r\n")
        self.status = int(status.split()[1]) if len(status.split()) > 1 and status.split()[1].isdigit() else 0
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        self.protocol = headers.get("sec-websocket-protocol", "")
        accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
        if self.status == 101 and headers.get("sec-websocket-accept") != accept:
            raise UnmetError("Sec-WebSocket-Accept is wrong")

    def _head(self) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.tcp.receive(self._patience_s)
            if not more:
                raise GoneError(f"connection closed in the handshake, after {shown(data)}")
            data += more
            if len(data) > _HEAD_BYTES_MAX:
                raise UnmetError("the answer to the handshake never ends")
        head, _, rest = data.partition(b"\r\n\r\n")
        self._frames.feed(rest)
        return head


def web_frame(opcode: int, payload: bytes, *, is_last: bool = True, is_masked: bool = True) -> bytes:
    """The bytes of a frame of a client.

    >>> web_frame(TEXT, b"ab", is_masked=False)
    b'\\x81\\x02ab'
    """
    mask_bit = 0x80 if is_masked else 0
    head = bytes([opcode | (0x80 if is_last else 0)])
    if len(payload) < 126:
        head += bytes([mask_bit | len(payload)])
    elif len(payload) < 65_536:
        head += bytes([mask_bit | 126]) + struct.pack("!H", len(payload))
    else:
        head += bytes([mask_bit | 127]) + struct.pack("!Q", len(payload))
    if not is_masked:
        return head + payload
    mask = os.urandom(4)
    # As numbers, since a loop over bytes would take seconds for large bodies.
    repeated = (mask * (len(payload) // 4 + 1))[: len(payload)]
    masked = (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(len(payload))
    return head + mask + masked
