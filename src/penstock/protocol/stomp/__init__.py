"""STOMP 1.0, 1.1 and 1.2 without I/O: bytes to frames and back; what frames mean is not decided here."""

from __future__ import annotations

from penstock.protocol.stomp.errors import StompError
from penstock.protocol.stomp.frames import (
    BODY_COMMANDS,
    CLIENT_COMMANDS,
    SERVER_COMMANDS,
    StompFrame,
    Version,
    choose_version,
)
from penstock.protocol.stomp.reader import StompLimits, StompReader
from penstock.protocol.stomp.writer import HEART_BEAT, encode, encode_headers

__all__ = [
    "BODY_COMMANDS",
    "CLIENT_COMMANDS",
    "HEART_BEAT",
    "SERVER_COMMANDS",
    "StompError",
    "StompFrame",
    "StompLimits",
    "StompReader",
    "Version",
    "choose_version",
    "encode",
    "encode_headers",
]
