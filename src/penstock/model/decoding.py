"""Decodes a peer's bytes, and turns whatever a decoder raises into one kind of error.

Decoders raise unrelated exceptions: a text that is not UTF-8 is a ``UnicodeDecodeError``, which
``msgspec.DecodeError`` does not include. Code that decodes a peer's bytes uses `decoded`, so that none is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from penstock.model.errors import PeerError, plainly

__all__ = ["UNREADABLE", "UnreadableError", "decoded"]

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions that decoding foreign bytes may raise."""
_Value = TypeVar("_Value")


class UnreadableError(PeerError):
    """A peer's bytes could not be decoded; the error's text may be sent to the peer."""


def decoded(decode: Callable[[bytes], _Value], data: bytes) -> _Value:
    """Decodes a peer's bytes; raises ``UnreadableError`` if that fails."""
    try:
        return decode(data)
    except UNREADABLE as error:
        raise UnreadableError(plainly(error)) from None
