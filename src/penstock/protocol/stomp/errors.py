"""Errors in the STOMP frames that peers send.

ProtocolError
└── StompError      bytes that are no STOMP frame, or one over a limit; the connection gets an ERROR and is closed
"""

from __future__ import annotations

from typing import Final

from penstock.protocol.errors import ProtocolError

__all__ = ["StompError", "shown"]

_SHOWN_CHARS_MAX: Final = 100


class StompError(ProtocolError):
    """A frame is malformed or over a limit; nothing after it can be read."""

    def __init__(self, reason: str, header: str = "") -> None:
        self.reason = reason
        """The rule that was broken, for people to read: printable, on one line."""
        self.header = shown(header)
        """The header at fault, its name or its whole line; shortened, and printable. Empty if it is no single one."""
        super().__init__(f"{reason}: {self.header!r}" if header else reason)


def shown(text: str) -> str:
    """What a peer sent, shortened, with escapes for everything that would end a line or move a terminal's cursor."""
    begin = text[:_SHOWN_CHARS_MAX]
    printable = begin if begin.isprintable() else "".join(map(_shown_character, begin))
    return printable if len(text) <= _SHOWN_CHARS_MAX else f"{printable}..."


def _shown_character(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
