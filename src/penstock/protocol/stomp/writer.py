"""Encodes STOMP frames: escapes headers as the version wants it, and never writes what a reader could not read back.

A header that a version cannot express is the caller's mistake, a ``ValueError``: NUL anywhere, an empty name, and where
nothing is escaped (1.0, CONNECT, CONNECTED) a line break, or a colon in a name. NUL has no escape, and many clients end
a frame at the first one they see: whoever could smuggle it into a header could forge frames. Spaces around a name or a
value are written in every version, though readers of 1.0 trim them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.protocol.stomp.escaping import UNESCAPED_COMMANDS
from penstock.protocol.stomp.frames import BODY_COMMANDS, CLIENT_COMMANDS, SERVER_COMMANDS, StompFrame, Version

__all__ = ["HEART_BEAT", "encode", "encode_headers"]

HEART_BEAT: Final = b"\n"
"""What is sent between frames to show that the sender is alive."""

_COMMANDS: Final = CLIENT_COMMANDS | SERVER_COMMANDS
_BODIES: Final = ", ".join(sorted(BODY_COMMANDS))


def encode(frame: StompFrame, version: Version) -> bytes:
    """Encodes a frame; one with a body gets a ``content-length``, whatever its headers say.

    Raises ``ValueError`` for a frame that this version cannot express.
    """
    command, headers, body = frame.command, frame.headers, frame.body
    if command not in _COMMANDS:
        raise ValueError(f"{command!r} is no command of STOMP")
    if body and command not in BODY_COMMANDS:
        raise ValueError(f"{command} has a body of {len(body):,} bytes, but only {_BODIES} may have one")
    if body or "content-length" in headers:
        headers = {**headers, "content-length": str(len(body))}
    lines = _plain_lines(headers) if command in UNESCAPED_COMMANDS else encode_headers(headers, version)
    return b"%b\n%b\n%b\0" % (command.encode(), lines, body)


def encode_headers(headers: Mapping[str, str], version: Version) -> bytes:
    """Encodes the lines of headers alone, each with its line feed, for frames that are put together from parts.

    Raises ``ValueError`` if this version cannot express one of them.
    """
    if version is Version.V1_0:
        return _plain_lines(headers)
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    # One look at all of the text instead of one at each name and value: nearly always there is nothing to escape.
    if (
        "\\" in lines
        or lines.count(":") != len(headers)
        or lines.count("\n") != len(headers)
        or (version is Version.V1_2 and "\r" in lines)
    ):
        lines = "".join([f"{_escaped(name, version)}:{_escaped(value, version)}\n" for name, value in headers.items()])
    return _checked(headers, lines)


def _escaped(text: str, version: Version) -> str:
    # The backslash first: those of the other escapes must stay single.
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")
    return text.replace("\r", "\\r") if version is Version.V1_2 else text


def _plain_lines(headers: Mapping[str, str]) -> bytes:
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    # A carriage return at the end of a line would be read as a part of the line's end.
    if lines.count("\n") != len(headers) or "\r" in lines:
        raise ValueError(f"a line break is in header {_first(headers, chr(10), chr(13))!r}, where nothing is escaped")
    if lines.count(":") != len(headers) and (name := next((name for name in headers if ":" in name), None)):
        raise ValueError(f"a colon is in the name of header {name!r}, where nothing is escaped")
    return _checked(headers, lines)


def _checked(headers: Mapping[str, str], lines: str) -> bytes:
    if "\0" in lines:
        raise ValueError(f"NUL is in header {_first(headers, chr(0))!r}, and has no escape")
    if "" in headers:
        raise ValueError("the name of a header is empty")
    return lines.encode()


def _first(headers: Mapping[str, str], *characters: str) -> str:
    """The name of the first header that contains one of these characters."""
    return next(name for name, value in headers.items() if any(each in name or each in value for each in characters))
