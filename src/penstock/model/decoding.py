"""Bytes of a peer to values: whatever a decoder complains of is one kind of error.

Decoders raise errors that are no relatives of each other: a text that is not UTF-8 is a ``UnicodeDecodeError``, which
``msgspec.DecodeError`` does not include. Who decodes what a peer has sent does it by `decoded`, so that none is missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from penstock.model.errors import PeerError, plainly

__all__ = ["UNREADABLE", "UnreadableError", "decoded"]

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding bytes that are not ours may raise."""
_Value = TypeVar("_Value")


class UnreadableError(PeerError):
    """Bytes of a peer that are not what they should be; its text is fit to be told to the peer."""


def decoded(decode: Callable[[bytes], _Value], data: bytes) -> _Value:
    """The value that bytes of a peer stand for; raises ``UnreadableError`` if they stand for none."""
    try:
        return decode(data)
    except UNREADABLE as error:
        raise UnreadableError(plainly(error)) from None
