"""Speaks STOMP over raw bytes for the conformance script: a strict reader of frames, and a connection that never hangs.

The reader takes frames apart byte by byte as the grammar of the version says. What cannot be read at all raises
``MalformedFrameError``. What breaks the grammar but can be read is listed in the frame's ``flaws``, so that one clause
can judge it and all others go on.

    UnmetError: the server did not do what the clause says
    ├── SilentError: nothing came in time
    ├── GoneError: the connection ended
    └── MalformedFrameError: the bytes of the server are no frame
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

__all__ = [
    "GoneError",
    "Headers",
    "MalformedFrameError",
    "RawConnection",
    "Reader",
    "ServerFrame",
    "SilentError",
    "TcpTransport",
    "Transport",
    "UnmetError",
    "decode",
    "encode",
    "escape",
    "shown",
]

Headers = Iterable[tuple[str, str]]

_COMMANDS: Final = (b"CONNECTED", b"MESSAGE", b"RECEIPT", b"ERROR")
_BODILESS: Final = ("CONNECTED", "RECEIPT")
_ESCAPES: Final[dict[str, dict[str, str]]] = {
    "1.0": {},
    "1.1": {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    "1.2": {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}
_ESCAPE: Final = re.compile(r"\\.?", re.DOTALL)
_SHOWN_CHARS: Final = 120
_CHUNK_BYTES: Final = 65_536


class UnmetError(Exception):
    """The server did not do what the clause says; the text is what it did instead."""


class SilentError(UnmetError):
    """Nothing came in time."""


class GoneError(UnmetError):
    """The connection ended."""


class MalformedFrameError(UnmetError):
    """The bytes of the server are no frame."""


@dataclass(slots=True, frozen=True)
class ServerFrame:
    """A frame as the server sent it; headers are still encoded."""

    command: str
    lines: tuple[tuple[bytes, bytes], ...]
    body: bytes
    version: str
    flaws: tuple[str, ...] = ()
    """What breaks the grammar of the version."""

    def get(self, name: str) -> str | None:
        """The decoded value of a header; of repeated ones the first."""
        return next(iter(self.all(name)), None)

    def all(self, name: str) -> list[str]:
        """All values of a repeated header, decoded."""
        return [self._decoded(value) for key, value in self.lines if self._decoded(key) == name]

    def raw(self, name: str) -> bytes | None:
        """The value as it came over the wire, where the name needs no escapes."""
        return next((value for key, value in self.lines if key == name.encode()), None)

    def __str__(self) -> str:
        if self.command == "ERROR" and (message := self.get("message")):
            return shown(f"ERROR: {message}")
        headers = " ".join(
            f"{key.decode(errors='replace')}:{value.decode(errors='replace')}" for key, value in self.lines
        )
        return shown(f"{self.command} {headers} {self.body!r}" if self.body else f"{self.command} {headers}")

    def _decoded(self, text: bytes) -> str:
        return decode(text, "1.0" if self.command == "CONNECTED" else self.version)


@dataclass(slots=True)
class Reader:
    """Turns the bytes of a server into frames."""

    version: str = "1.0"
    """What was negotiated, which decides about escapes and line ends; before CONNECTED nobody can rely on more."""
    eols: int = 0
    """Line ends between frames so far: those after a frame, and heart-beats."""
    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self._buffer += data

    def next(self) -> ServerFrame | None:
        """Take the next whole frame out; None if it is not there yet."""
        self._skip_eols()
        end = self._end_of_head()
        if end is None:
            return None
        head, start = end
        command, *lines = head
        if command not in _COMMANDS:
            raise MalformedFrameError(f"the command is {shown(command)}")
        headers = tuple(_header(line) for line in lines)
        stop = self._end_of_body(start, headers)
        if stop is None:
            return None
        body = bytes(self._buffer[start:stop])
        del self._buffer[: stop + 1]
        frame = ServerFrame(command.decode(), headers, body, self.version)
        return ServerFrame(frame.command, headers, body, self.version, tuple(_flaws(frame)))

    @property
    def rest(self) -> bytes:
        """The bytes of an unfinished frame."""
        return bytes(self._buffer)

    def _skip_eols(self) -> None:
        while self._buffer[:1] == b"\n" or self._buffer[:2] == b"\r\n":
            del self._buffer[: 1 if self._buffer[:1] == b"\n" else 2]
            self.eols += 1

    def _end_of_head(self) -> tuple[list[bytes], int] | None:
        lines: list[bytes] = []
        place = 0
        while (end := self._buffer.find(b"\n", place)) >= 0:
            line = bytes(self._buffer[place:end])
            if self.version == "1.2":
                line = line.removesuffix(b"\r")
            place = end + 1
            if not line:
                return lines, place
            lines.append(line)
        if b"\0" in self._buffer:
            raise MalformedFrameError(f"the frame ends within its headers: {shown(bytes(self._buffer))}")
        return None

    def _end_of_body(self, start: int, headers: tuple[tuple[bytes, bytes], ...]) -> int | None:
        length = next((value for key, value in headers if key == b"content-length"), None)
        if length is None:
            end = self._buffer.find(b"\0", start)
            return end if end >= 0 else None
        if not length.isdigit():
            raise MalformedFrameError(f"content-length is {shown(length)}")
        end = start + int(length)
        if len(self._buffer) <= end:
            return None
        if self._buffer[end] != 0:
            raise MalformedFrameError(f"no zero byte after a body of content-length {int(length)}")
        return end


class Transport(Protocol):
    """What carries the bytes of both sides."""

    def send(self, data: bytes) -> None:
        """Send all of this; raises ``GoneError`` if the connection has ended."""
        ...

    def receive(self, within_s: float) -> bytes:
        """Wait for some bytes; none means that the connection has ended. Raises ``SilentError`` if nothing comes."""
        ...

    def close(self) -> None:
        """End it, without a word."""
        ...


class TcpTransport:
    """A TCP connection."""

    def __init__(self, host: str, port: int, *, patience_s: float) -> None:
        try:
            self.socket = socket.create_connection((host, port), timeout=patience_s)
        except OSError as error:
            raise GoneError(f"cannot connect: {error}") from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._patience_s = patience_s

    def send(self, data: bytes) -> None:
        """Send all of this; raises ``GoneError`` if the connection has ended."""
        self.socket.settimeout(self._patience_s)
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise SilentError(f"the server read nothing for {self._patience_s:g} s") from None
        except OSError as error:
            raise GoneError(f"connection closed while we sent ({error.strerror})") from None

    def receive(self, within_s: float) -> bytes:
        """Wait for some bytes; none means that the connection has ended."""
        self.socket.settimeout(max(within_s, 0.001))
        try:
            return self.socket.recv(_CHUNK_BYTES)
        except TimeoutError:
            raise SilentError("silence") from None
        except OSError:
            return b""

    def close(self) -> None:
        """End it, without a word."""
        self.socket.close()


class RawConnection:
    """A connection to a server: sends any bytes, and reads frames by a deadline."""

    def __init__(self, transport: Transport, *, patience_s: float) -> None:
        self.transport: Final = transport
        self.reader: Final = Reader()
        self.is_closed = False
        """Whether the server has closed it."""
        self.flaws: list[str] = []
        """What broke the grammar in all frames so far."""
        self._patience_s = patience_s

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.transport.send(data)

    def frame(self, within_s: float | None = None) -> ServerFrame:
        """The next frame."""
        waited_s = self._patience_s if within_s is None else within_s
        deadline_s = time.monotonic() + waited_s
        while (frame := self.reader.next()) is None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise SilentError(f"no frame within {waited_s:g} s{self._unfinished()}")
            try:
                self._receive(left_s)
            except SilentError:
                continue
            if self.is_closed:
                raise GoneError(f"connection closed{self._unfinished()}")
        self.flaws += frame.flaws
        if frame.command == "CONNECTED":
            version = frame.get("version") or "1.0"
            if version not in _ESCAPES:
                raise UnmetError(f"the version is {version}")
            self.reader.version = version
        return frame

    def arrivals(self, seconds: float) -> Iterator[tuple[float, bytes]]:
        """What comes within a time, with the seconds since the start; ends when the server closes."""
        start_s = time.monotonic()
        while not self.is_closed and (left_s := start_s + seconds - time.monotonic()) > 0:
            try:
                data = self.transport.receive(left_s)
            except SilentError:
                return
            self.is_closed = not data
            if data:
                yield time.monotonic() - start_s, data

    def closes(self, within_s: float | None = None) -> bool:
        """Whether the server closes the connection in time; what it still sends is left out."""
        for _ in self.arrivals(self._patience_s if within_s is None else within_s):
            pass
        return self.is_closed

    def close(self) -> None:
        """End it, without a word."""
        self.transport.close()

    def _receive(self, within_s: float) -> None:
        data = self.transport.receive(within_s)
        self.is_closed = not data
        self.reader.feed(data)

    def _unfinished(self) -> str:
        return f", but {shown(self.reader.rest)}" if self.reader.rest else ""


def encode(command: str, headers: Headers = (), body: bytes = b"", *, version: str = "1.2") -> bytes:
    """The bytes of a frame of ours; CONNECT and STOMP know no escapes.

    >>> encode("SEND", [("destination", "/queue/a"), ("a:b", "c")], b"x")
    b'SEND\\ndestination:/queue/a\\na\\\\cb:c\\n\\nx\\x00'
    """
    known = "1.0" if command in ("CONNECT", "STOMP") else version
    lines = "".join(f"{escape(name, known)}:{escape(value, known)}\n" for name, value in headers)
    return f"{command}\n{lines}\n".encode() + body + b"\0"


def escape(text: str, version: str) -> str:
    """Escape a name or value as the version asks.

    >>> escape("a:b", "1.1"), escape("a:b", "1.0")
    ('a\\\\cb', 'a:b')
    """
    escapes = _ESCAPES[version]
    return "".join(escapes.get(each, each) for each in text)


def decode(text: bytes, version: str) -> str:
    """Undo escapes; undefined ones are left as they are, since the frame says that they are flaws."""
    known = {escaped: plain for plain, escaped in _ESCAPES[version].items()}
    decoded = text.decode(errors="surrogateescape")
    return _ESCAPE.sub(lambda found: known.get(found[0], found[0]), decoded) if known else decoded


def shown(text: str | bytes) -> str:
    """A text, short enough for a table."""
    written = text if isinstance(text, str) else repr(text)[1:]
    return written if len(written) <= _SHOWN_CHARS else written[: _SHOWN_CHARS - 1] + "…"


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name:
        raise MalformedFrameError(f"the header line {shown(line)} has no name or no colon")
    return name, value


def _flaws(frame: ServerFrame) -> Iterator[str]:
    """What breaks the grammar in a frame that could be read."""
    if frame.body and frame.command in _BODILESS:
        yield f"{frame.command} has a body"
    known = {} if frame.command == "CONNECTED" else _ESCAPES[frame.version]
    for name, value in frame.lines:
        line = name + b":" + value
        where = f"{frame.command}: header {shown(line)}"
        try:
            text = line.decode()
        except UnicodeDecodeError:
            yield f"{where} is not UTF-8"
            continue
        if b":" in value and ":" in known:
            yield f"{where} has an unescaped colon"
        if "\r" in text and "\r" in known:
            yield f"{where} has an unescaped carriage return"
        if known and any(each not in known.values() for each in _ESCAPE.findall(text)):
            yield f"{where} has an undefined escape"
