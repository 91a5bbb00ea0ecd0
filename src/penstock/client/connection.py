"""One connection of a client on asyncio: carries bytes between a transport and the shell, and decides nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Final, Protocol, cast

from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import Frame
from penstock.system.forking import let_go

__all__ = ["Connection", "Owner", "is_hopeless"]

_HIGH_WATER_BYTES: Final = 256 * 1024
"""Bytes in the transport above which batches wait in the session."""
_REFUSED_BY_TLS: Final = frozenset(
    {
        "RECORD_LAYER_FAILURE",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_UNKNOWN_CA",
        "WRONG_VERSION_NUMBER",
    }
)
"""What OpenSSL says when the other end refuses a certificate, or does not speak TLS."""


def is_hopeless(error: Exception | None) -> bool:
    """Whether another attempt would fail in the same way: certificates do not match, or the host's name is no name."""
    if isinstance(error, ssl.SSLError):
        return isinstance(error, ssl.SSLCertVerificationError) or error.reason in _REFUSED_BY_TLS
    return isinstance(error, ValueError)


class Owner(Protocol):
    """Hears what happens to connections."""

    def on_made(self, connection: Connection) -> None:
        """The connection has its transport."""

    def on_data(self, connection: Connection, frames: Iterable[Frame]) -> None:
        """Bytes have arrived; frames are decoded while the owner iterates."""

    def on_writable(self, connection: Connection, *, is_writable: bool) -> None:
        """The transport can take more, or its buffer is full."""

    def on_gone(self, connection: Connection, problem: str, error: Exception | None) -> None:
        """The transport is gone, maybe because of an error."""


class Connection(asyncio.Protocol):
    """One transport, from its creation to its end."""

    def __init__(self, number: int, owner: Owner) -> None:
        self.number: Final = number
        self._owner = owner
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._has_heard = False
        self._is_cut = False
        self.is_paused = False
        """Whether reading from the socket is paused."""

    @property
    def is_made(self) -> bool:
        """Whether there is or was a transport."""
        return self._transport is not None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Limit the transport's write buffer, and tell the owner."""
        # A cast, not an assert: uvloop's transports quack like asyncio's but do not inherit from them.
        self._transport = cast("asyncio.Transport", transport)
        if self._is_cut:
            # It was given up while it was being made: its end is reported like any other's.
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._owner.on_made(self)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on at once, as frames."""
        self._has_heard = True
        self._owner.on_data(self, self._reader.feed(data))

    def pause_writing(self) -> None:
        """The write buffer is full."""
        self._owner.on_writable(self, is_writable=False)

    def resume_writing(self) -> None:
        """The transport can take more."""
        self._owner.on_writable(self, is_writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self._owner.on_gone(self, str(exc) if exc else self._why_closed(), exc)

    def _why_closed(self) -> str:
        problem = "the broker closed the connection"
        if self._transport is None or self._has_heard or self._transport.get_extra_info("ssl_object") is None:
            return problem
        # A broker that refuses a certificate just closes the connection, after the client has finished its handshake.
        return f"{problem} before it said anything; it may want another certificate"

    # Called by the shell.

    def write(self, frames: Iterable[Frame]) -> None:
        """Send these frames in one write."""
        assert self._transport is not None, "nobody is there to hear it"
        self._transport.write(b"".join([encode_frame(frame) for frame in frames]))

    def close(self) -> None:
        """End the connection once everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection, or do so as soon as it is made."""
        self._is_cut = True
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        if not self.is_paused and self._transport is not None:
            self.is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        if self.is_paused and self._transport is not None:
            self.is_paused = False
            self._transport.resume_reading()

    def let_go(self) -> None:
        """Forget the transport without touching it: in a forked child it is a copy of the parent's."""
        transport, self._transport = self._transport, None
        copied = transport.get_extra_info("socket") if transport is not None else None
        if copied is not None and copied.fileno() >= 0:
            let_go(copied.fileno())
