"""Cuts a stream of bytes into STOMP frames, and refuses the first that breaks a rule or a limit.

The rules are those of the specifications of STOMP 1.0, 1.1 and 1.2. Where they are silent, or clients differ:

- A colon in a value need not be escaped: the first one in a line ends the name. Many clients leave the others bare.
- NUL cannot stand in a command or header. The grammar would allow it; but whoever forgot the blank line before the NUL
  that ends a frame should hear of it, instead of waiting for ever.
- In 1.0, names and values lose the spaces and tabs around them, as its servers did, since the examples of its
  specification have them. So does a CONNECT of a client that knows no other version.
- A line may end in CR LF in 1.2, as specified; also in 1.0 and in the frame that connects, as ActiveMQ has it in 1.0.
  In 1.1 a CR is part of the value. Between frames CR is skipped in every version.
- CONNECT and CONNECTED are never escaped. Of STOMP, which means the same as CONNECT, some clients escape the headers
  and some do not: escapes of the version it asks for are undone, and everything else stays as it is.
- A header of 1.0 may have any UTF-8, and an empty value. The body of a SUBSCRIBE of 1.0 is ignored, as specified.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Final

from penstock.model.limits import ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX
from penstock.protocol.stomp.errors import StompError
from penstock.protocol.stomp.escaping import UNESCAPED_COMMANDS, unescaped, unescaped_where_defined
from penstock.protocol.stomp.frames import BODY_COMMANDS, CLIENT_COMMANDS, StompFrame, Version, choose_version

__all__ = ["StompLimits", "StompReader"]

_LF: Final = 10
_CR: Final = 13
_EOLS: Final = re.compile(rb"[\r\n]*")
_CONNECTING: Final = frozenset(("CONNECT", "CONNECTED", "STOMP"))
_BODIES: Final = ", ".join(sorted(BODY_COMMANDS))
_UNKNOWN: Final = -1
"""The length of a body that ends at the first NUL."""
_LENGTH_DIGITS_MAX: Final = 18
_LINE_BYTES_SHOWN: Final = 500
_LARGE_BODY_BYTES: Final = 16 * 1024


@dataclass(slots=True, frozen=True)
class StompLimits:
    """What one frame may have; a frame over a limit is refused as soon as that shows."""

    headers_max: int = ATTRIBUTES_MAX + 16
    """Headers in a frame: the attributes of a message, and those of STOMP itself. Repeated ones count."""
    header_bytes_max: int = 70_000
    """Bytes in one line, without its line feed."""
    head_bytes_max: int = 1024 * 1024
    """Bytes of the command and all headers, with the blank line after them."""
    body_bytes_max: int = PAYLOAD_BYTES_MAX
    """Bytes in a body."""

    def __post_init__(self) -> None:
        assert min(astuple(self)) >= 1, f"a limit of {self} is below 1"


_DEFAULT_LIMITS: Final = StompLimits()


class StompReader:
    """Cuts a stream of bytes into frames.

    The owner sets ``version`` when it has read a CONNECT. As frames are read one by one while the owner iterates, the
    version is in force for the very next frame, and so is another ``bytes_max``.
    """

    __slots__ = (
        "_body_bytes",
        "_body_start",
        "_buffer",
        "_commands",
        "_frame",
        "_limits",
        "_line_start",
        "_lines",
        "_searched",
        "_short_head_bytes",
        "_start",
        "bytes_max",
        "version",
    )

    def __init__(self, limits: StompLimits = _DEFAULT_LIMITS, *, commands: frozenset[str] = CLIENT_COMMANDS) -> None:
        self.version: Version | None = None
        """The version both sides agreed on; None as long as nobody has connected."""
        self.bytes_max = limits.head_bytes_max + limits.body_bytes_max + 1
        """Bytes in a whole frame: an owner sets it low for strangers, and higher for clients it knows."""
        self._limits = limits
        self._commands = commands
        self._short_head_bytes = min(limits.header_bytes_max, limits.head_bytes_max, limits.headers_max)
        """A head that is no longer than this cannot be over a limit: a header has at least one byte."""
        self._buffer = bytearray()
        self._start = 0
        """Where the frame that is being read begins; what is before it has been read."""
        self._searched = 0
        """Up to where the end of the head, or then of the body, was sought: nothing is looked at twice."""
        self._line_start = 0
        self._lines = 0
        self._frame: StompFrame | None = None
        """The frame whose head is complete, but not its body."""
        self._body_start = 0
        self._body_bytes = _UNKNOWN

    @property
    def unfinished_bytes(self) -> int:
        """Bytes received of a frame that is not complete yet."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> Iterator[StompFrame]:
        """Yields the frames that this data completes; raises ``StompError`` at the first malformed one.

        After that the reader is of no use: where the next frame would begin, nobody knows.
        """
        self._buffer += data
        try:
            while (frame := self._next()) is not None:
                yield frame
        finally:
            self._forget_what_was_read()

    def _next(self) -> StompFrame | None:
        try:
            if self._frame is None:
                if not self._find_body():
                    return None
                self._read_head()
            return self._read_body()
        except StompError:
            # The owner may keep the reader until the connection is closed: the memory need not wait for that.
            self._buffer.clear()
            self._begin_at(0)
            raise

    def _begin_at(self, start: int) -> None:
        self._start = self._searched = self._line_start = start
        self._lines = 0
        self._frame = None

    def _forget_what_was_read(self) -> None:
        # Not after each frame, but once: there may be thousands in one piece of data.
        start = self._start
        if start:
            del self._buffer[:start]
            self._start = 0
            self._searched -= start
            self._line_start -= start
            self._body_start -= start

    def _find_body(self) -> bool:
        """Seeks the blank line that ends the head; the body begins behind it."""
        buffer, start = self._buffer, self._start
        if self._searched > start:
            return self._search_on()
        if start < len(buffer) and buffer[start] <= _CR:
            found = _EOLS.match(buffer, start)
            assert found is not None
            start = found.end()
            self._begin_at(start)
        if start == len(buffer):
            return False
        # Most frames are short, and all of one is there; then its first NUL is at the end or in the body.
        end = self._blank_line(start, buffer.find(0, start))
        if end < 0 or (end - start > self._short_head_bytes and self._may_be_over_a_limit(start, end)):
            return self._search_on()
        self._body_start = end
        return True

    def _may_be_over_a_limit(self, start: int, end: int) -> bool:
        limits = self._limits
        is_long = end - start > min(limits.header_bytes_max, limits.head_bytes_max)
        # Beside the headers there are the command and the blank line.
        return is_long or self._buffer.count(_LF, start, end) > limits.headers_max + 2

    def _blank_line(self, start: int, nul: int) -> int:
        """The end of the first blank line before a NUL; -1 if there is none, or no NUL."""
        if nul < 0:
            return -1
        buffer = self._buffer
        found = buffer.find(b"\n\n", start, nul)
        # The first of two line feeds may be the second of a blank line with CR.
        stop = found + 1 if found >= 0 else nul
        # A single byte is found in no time, so that clients without CR pay nothing for the others.
        if self.version is not Version.V1_1 and buffer.find(_CR, start, stop) >= 0:
            with_cr = buffer.find(b"\n\r\n", start, stop)
            if with_cr >= 0:
                return with_cr + 3
        return found + 2 if found >= 0 else -1

    def _search_on(self) -> bool:
        """Does the same line by line, from where it stopped, for heads that come in pieces or are over a limit."""
        buffer = self._buffer
        while True:
            end = buffer.find(_LF, self._searched)
            stop = end if end >= 0 else len(buffer)
            nul = buffer.find(0, self._searched, stop)
            # Which of two faults is told should not depend on how the data was cut: the first one is.
            self._check_line(stop if nul < 0 else nul)
            if nul >= 0:
                raise StompError("a NUL comes before the blank line that ends the headers", self._line())
            if end < 0:
                self._searched = stop
                self._check_size(stop + 1)
                return False
            self._searched = end + 1
            if self._is_blank(end):
                self._body_start = end + 1
                return True
            self._line_start = end + 1
            self._lines += 1

    def _check_line(self, stop: int) -> None:
        limits = self._limits
        if stop - self._line_start > limits.header_bytes_max:
            raise StompError(f"a line is longer than {limits.header_bytes_max:,} bytes", self._line())
        # There is at least a line feed to come.
        if stop - self._start >= limits.head_bytes_max:
            raise StompError(f"the headers are longer than {limits.head_bytes_max:,} bytes", self._line())
        if self._lines > limits.headers_max and not self._is_blank(stop):
            raise StompError(f"the frame has more than {limits.headers_max:,} headers", self._line())

    def _is_blank(self, stop: int) -> bool:
        start = self._line_start
        has_only_cr = stop == start + 1 and self._buffer[start] == _CR
        return stop == start or (has_only_cr and self.version is not Version.V1_1)

    def _check_size(self, stop: int) -> None:
        """Refuses a frame that ends at this place at the earliest, if it is too large."""
        if stop - self._start > self.bytes_max:
            raise StompError(f"the frame is larger than {self.bytes_max:,} bytes")

    def _line(self) -> str:
        # More than is shown, and never all of a line that may be endless.
        begin = self._buffer[self._line_start : self._line_start + _LINE_BYTES_SHOWN]
        return begin.partition(b"\n")[0].decode(errors="backslashreplace")

    def _read_head(self) -> None:
        buffer, end = self._buffer, self._body_start - 2
        head = buffer[self._start : end - 1 if buffer[end] == _CR else end]
        try:
            text = head.decode()
        except UnicodeDecodeError:
            raise StompError("a header is not UTF-8", _line_that_is_not_utf8(head)) from None
        lines = text.split("\n")
        if "\r" in text and self.version is not Version.V1_1:
            lines = self._without_line_ends(lines)
        command = lines.pop(0)
        if command not in self._commands or (command == "NACK" and self.version is Version.V1_0):
            raise StompError("the command is unknown, or not one that may be sent here", command)
        headers = self._read_headers(command, lines, has_escapes="\\" in text)
        length = headers.get("content-length")
        self._frame = StompFrame(command, headers)
        self._searched = self._body_start
        self._body_bytes = _UNKNOWN if length is None else self._read_length(length)

    def _without_line_ends(self, lines: list[str]) -> list[str]:
        lines = [line.removesuffix("\r") for line in lines]
        if self.version is Version.V1_2:
            for line in lines:
                if "\r" in line:
                    raise StompError("a carriage return in a header is not escaped", line)
        return lines

    def _read_headers(self, command: str, lines: list[str], *, has_escapes: bool) -> dict[str, str]:
        try:
            headers = dict([line.split(":", 1) for line in lines])
        except ValueError:
            raise StompError("a header has no colon", next(line for line in lines if ":" not in line)) from None
        version = self._version_of(command, headers)
        if version is Version.V1_0:
            headers = _first_of((name.strip(" \t"), value.strip(" \t")) for name, value in _pairs(lines))
        elif has_escapes and command not in UNESCAPED_COMMANDS:
            headers = _first_of(_without_escapes(command, lines, version))
        elif len(headers) != len(lines):
            headers = _first_of(_pairs(lines))
        if "" in headers:
            raise StompError("the name of a header is empty", f":{headers['']}")
        return headers

    def _version_of(self, command: str, headers: dict[str, str]) -> Version:
        if self.version is not None:
            return self.version
        if command not in _CONNECTING:
            return Version.V1_0
        wanted = headers.get("version" if command == "CONNECTED" else "accept-version")
        # A client with which we share no version hears so from the owner: its frame must be read for that.
        return choose_version(wanted) or Version.V1_2

    def _read_length(self, text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise StompError("the content-length is not a decimal number", f"content-length:{text}")
        # Digits by the thousand are not worth a conversion: Python refuses it, and the number is too large anyway.
        digits = text.lstrip("0")
        if len(digits) > _LENGTH_DIGITS_MAX or int(digits or "0") > self._limits.body_bytes_max:
            raise StompError(
                f"the content-length is over the limit of {self._limits.body_bytes_max:,}", f"content-length:{text}"
            )
        return int(digits or "0")

    def _read_body(self) -> StompFrame | None:
        frame, buffer, start = self._frame, self._buffer, self._body_start
        assert frame is not None
        if self._body_bytes == _UNKNOWN:
            found = buffer.find(0, self._searched)
            end = found if found >= 0 else len(buffer)
            is_complete = found >= 0
            self._searched = end
        else:
            end = start + self._body_bytes
            is_complete = end < len(buffer)
        if end > start and frame.command not in BODY_COMMANDS and not self._is_body_ignored(frame.command):
            raise StompError(f"{frame.command} has a body, but only {_BODIES} may have one", self._length_line(frame))
        if end - start > self._limits.body_bytes_max:
            raise StompError(f"the body is longer than {self._limits.body_bytes_max:,} bytes")
        self._check_size(end + 1)
        if not is_complete:
            return None
        if buffer[end]:
            raise StompError("no NUL is where the content-length says that the body ends", self._length_line(frame))
        if end > start and frame.command in BODY_COMMANDS:
            frame.body = _copied(buffer, start, end)
        self._begin_at(end + 1)
        return frame

    def _length_line(self, frame: StompFrame) -> str:
        return "" if self._body_bytes == _UNKNOWN else f"content-length:{frame.headers['content-length']}"

    def _is_body_ignored(self, command: str) -> bool:
        return command == "SUBSCRIBE" and self.version is Version.V1_0


def _copied(buffer: bytearray, start: int, end: int) -> bytes:
    if end - start < _LARGE_BODY_BYTES:
        return bytes(buffer[start:end])
    # A slice is a copy of its own: a large body would be in memory three times. For small ones views cost more.
    with memoryview(buffer) as whole, whole[start:end] as part:
        return bytes(part)


def _pairs(lines: list[str]) -> Iterator[list[str]]:
    return (line.split(":", 1) for line in lines)


def _first_of(pairs: Iterable[Sequence[str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in pairs:
        headers.setdefault(name, value)
    return headers


def _without_escapes(command: str, lines: list[str], version: Version) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, value = line.partition(":")
        if "\\" not in line:
            yield name, value
        elif command == "STOMP":
            yield unescaped_where_defined(name, version), unescaped_where_defined(value, version)
        else:
            yield unescaped(name, version, header=name), unescaped(value, version, header=name)


def _line_that_is_not_utf8(head: bytearray) -> str:
    lines = (line.decode(errors="backslashreplace") for line in head.split(b"\n") if not _is_utf8(line))
    # Line feeds are no part of other characters in UTF-8: so one of the lines is at fault.
    return next(lines)


def _is_utf8(line: bytearray) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
