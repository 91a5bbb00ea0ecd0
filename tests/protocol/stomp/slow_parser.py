"""A second reader of STOMP, byte by byte and without any haste: what the real one is compared with.

It is written from the specifications and shares nothing with the package but its types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.protocol.stomp import StompFrame, StompLimits, Version

ALL_COMMANDS = (
    "SEND",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "BEGIN",
    "COMMIT",
    "ABORT",
    "ACK",
    "NACK",
    "DISCONNECT",
    "CONNECT",
    "STOMP",
    "CONNECTED",
    "MESSAGE",
    "RECEIPT",
    "ERROR",
)
WITH_BODY = ("SEND", "MESSAGE", "ERROR")


class RefusedError(Exception):
    """The bytes so far cannot become a stream of frames any more."""


def parse(
    data: bytes, version: Version | None, limits: StompLimits, bytes_max: int
) -> tuple[list[StompFrame], str | None]:
    """The frames, and the first byte's fault that makes all that follows unreadable; None if there is none."""
    parser = SlowParser(version, limits, bytes_max)
    try:
        for byte in data:
            parser.take(byte)
    except RefusedError as error:
        return parser.frames, str(error)
    return parser.frames, None


@dataclass
class SlowParser:
    version: Version | None
    limits: StompLimits
    bytes_max: int
    frames: list[StompFrame] = field(default_factory=list)
    state: str = "between"
    lines: list[bytes] = field(default_factory=list)
    line: bytes = b""
    taken: int = 0
    frame: StompFrame | None = None
    length: int | None = None
    body: bytes = b""

    def take(self, byte: int) -> None:
        if self.state == "between":
            if byte in b"\r\n":
                return
            self.state, self.lines, self.line, self.taken = "head", [], b"", 0
        self.taken += 1
        if self.state == "head":
            self.take_of_head(byte)
        else:
            self.take_of_body(byte)

    def take_of_head(self, byte: int) -> None:
        if byte == 0:
            raise RefusedError("NUL in the head")
        is_cr_an_end = self.version != "1.1"
        if byte == 10:
            if self.line == b"" or (self.line == b"\r" and is_cr_an_end):
                self.finish_head()
                return
            self.lines.append(self.line)
            self.line = b""
        else:
            self.line += bytes((byte,))
        if len(self.line) > self.limits.header_bytes_max:
            raise RefusedError("long line")
        if self.taken >= self.limits.head_bytes_max:
            raise RefusedError("long head")
        is_blank = self.line == b"" or (self.line == b"\r" and is_cr_an_end)
        if len(self.lines) > self.limits.headers_max and not is_blank:
            raise RefusedError("many headers")
        self.check_size(self.taken + 1)

    def check_size(self, least: int) -> None:
        if least > self.bytes_max:
            raise RefusedError("large frame")

    def finish_head(self) -> None:
        texts = [self.text_of(line) for line in self.lines]
        command, *rest = texts
        if command not in ALL_COMMANDS or (command == "NACK" and self.version == "1.0"):
            raise RefusedError("command")
        split = [self.split(text) for text in rest]
        rules = self.rules_for(command, split)
        headers: dict[str, str] = {}
        for name, value in split:
            read_name, read_value = self.read(name, command, rules), self.read(value, command, rules)
            if read_name == "":
                raise RefusedError("empty name")
            if read_name not in headers:
                headers[read_name] = read_value
        self.frame = StompFrame(command, headers)
        self.state, self.length, self.body = "body", None, b""
        if "content-length" in headers:
            self.length = self.number_of(headers["content-length"])
            if self.length > self.limits.body_bytes_max or (self.length and not self.may_have_body()):
                raise RefusedError("content-length")
        self.check_size(self.taken + (self.length or 0) + 1)

    def text_of(self, line: bytes) -> str:
        try:
            text = str(line, "utf-8")
        except UnicodeDecodeError:
            raise RefusedError("coding") from None
        if self.version != "1.1" and text[-1:] == "\r":
            text = text[:-1]
        if self.version == "1.2" and "\r" in text:
            raise RefusedError("bare CR")
        return text

    def split(self, text: str) -> tuple[str, str]:
        for place, character in enumerate(text):
            if character == ":":
                return text[:place], text[place + 1 :]
        raise RefusedError("no colon")

    def rules_for(self, command: str, split: Iterable[tuple[str, str]]) -> str:
        if self.version is not None:
            return str(self.version)
        asks = {"CONNECT": "accept-version", "STOMP": "accept-version", "CONNECTED": "version"}.get(command)
        for name, value in split:
            if name == asks:
                known = [each.strip() for each in value.split(",")]
                return next((each for each in ("1.2", "1.1", "1.0") if each in known), "1.2")
        return "1.0"

    def read(self, text: str, command: str, rules: str) -> str:
        if rules == "1.0":
            while text and text[0] in " \t":
                text = text[1:]
            while text and text[-1] in " \t":
                text = text[:-1]
            return text
        if command in ("CONNECT", "CONNECTED"):
            return text
        found, characters = "", iter(text)
        for character in characters:
            if character != "\\":
                found += character
                continue
            code = next(characters, "")
            if code == "\\":
                found += "\\"
            elif code == "n":
                found += "\n"
            elif code == "c":
                found += ":"
            elif code == "r" and rules == "1.2":
                found += "\r"
            elif command == "STOMP":
                found += "\\" + code
            else:
                raise RefusedError("escape")
        return found

    def number_of(self, text: str) -> int:
        number = 0
        for character in text:
            if character not in "0123456789":
                raise RefusedError("content-length")
            number = 10 * number + "0123456789".index(character)
        if not text:
            raise RefusedError("content-length")
        return number

    def may_have_body(self) -> bool:
        assert self.frame is not None
        return self.frame.command in WITH_BODY or (self.frame.command == "SUBSCRIBE" and self.version == "1.0")

    def take_of_body(self, byte: int) -> None:
        assert self.frame is not None
        is_at_end = byte == 0 if self.length is None else len(self.body) == self.length
        if is_at_end:
            if byte:
                raise RefusedError("no NUL after the body")
            if self.frame.command in WITH_BODY:
                self.frame.body = self.body
            self.frames.append(self.frame)
            self.state = "between"
            return
        if not self.may_have_body():
            raise RefusedError("body")
        self.body += bytes((byte,))
        if len(self.body) > self.limits.body_bytes_max:
            raise RefusedError("long body")
        self.check_size(self.taken + 1)
