"""Seals datagrams between holders of a shared key: nobody else can write them, and replays are dropped.

A datagram is a mark, the sender's number, a counter, a tag and the message. The tag is an HMAC (SHA-256, cut to 16
bytes) over all the rest. The counter starts with the time in milliseconds and only grows: a datagram whose counter is
not above the last one of its sender was replayed or overtaken, and is dropped like a lost one. The first datagram of a
sender must not be too old, so that a receiver that has just started accepts no replays either. After that the counter
is enough: a known sender stays known when a clock is set, its own or the receiver's. When there are too many senders to
remember, the one silent for longest is forgotten, and from then on unknown senders need a counter above its last one.
Without a key the seal detects damage only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Final

from penstock.model.errors import MisuseError, PeerError

__all__ = ["KEY_BYTES_MIN", "SENDERS_MAX", "ForgedError", "ReplayedError", "Seal", "SealError"]

KEY_BYTES_MIN: Final = 8
_MARK: Final = b"Aj1"
_HEADER: Final = len(_MARK) + 8 + 8
_TAG: Final = 16
_AGE_MS_MAX: Final = 60_000
"""How old, or how far ahead, a sender's first datagram may be: clocks are synchronised, but not perfectly."""
SENDERS_MAX: Final = 10_000
"""Senders that are remembered."""


class SealError(PeerError):
    """A datagram that is not to be believed."""


class ForgedError(SealError):
    """A datagram whose tag does not match the key."""


class ReplayedError(SealError):
    """A datagram that was heard before, or is too old to tell."""


class Seal:
    """Seals the messages of one node, and opens those of others."""

    def __init__(self, key: bytes, sender: int, *, now_ms: Callable[[], int]) -> None:
        if key and len(key) < KEY_BYTES_MIN:
            raise MisuseError(f"the key has {len(key)} bytes, must have at least {KEY_BYTES_MIN}")
        self._key = key
        self._sender = sender.to_bytes(8)
        self._now_ms = now_ms
        self._counter = 0
        self._heard: OrderedDict[bytes, int] = OrderedDict()
        self._forgotten = 0
        """The highest counter of all forgotten senders, whose datagrams could be replayed otherwise."""

    def seal(self, message: bytes) -> bytes:
        """The datagram that carries a message."""
        # Above all counters that this node has used, even before a restart, unless clocks went back.
        self._counter = max(self._counter + 1, self._now_ms() << 16)
        header = _MARK + self._sender + self._counter.to_bytes(8)
        return header + self._tag(header + message) + message

    def open(self, datagram: bytes) -> bytes:
        """The message in a datagram; raises ``SealError`` if that is not sealed, forged or replayed."""
        if len(datagram) < _HEADER + _TAG or not datagram.startswith(_MARK):
            raise SealError("a datagram that is not sealed")
        header = datagram[:_HEADER]
        tag = datagram[_HEADER : _HEADER + _TAG]
        message = datagram[_HEADER + _TAG :]
        if not compare_digest(tag, self._tag(header + message)):
            raise ForgedError("a datagram with a false tag")
        sender, counter = header[len(_MARK) : -8], int.from_bytes(header[-8:])
        last = self._heard.get(sender)
        if last is None and abs(self._now_ms() - (counter >> 16)) > _AGE_MS_MAX:
            raise ReplayedError("a datagram of an unknown sender that is too old, or of the future")
        if counter <= (self._forgotten if last is None else last):
            raise ReplayedError("a datagram that was replayed")
        self._heard[sender] = counter
        self._heard.move_to_end(sender)
        if len(self._heard) > SENDERS_MAX:
            _, counter = self._heard.popitem(last=False)
            self._forgotten = max(self._forgotten, counter)
        return message

    def _tag(self, data: bytes) -> bytes:
        return hmac_digest(self._key or b"no key", data, sha256)[:_TAG]
