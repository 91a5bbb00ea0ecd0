"""A carrier over UDP for members that know each other from a list of addresses; optionally with a shared key.

A datagram contains the group, the sender, the receiver and the payload. With a key it is sealed (``live/seal.py``):
nobody outside the group can forge or replay one. Without a key anybody who can reach a member can speak to it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from penstock.client.token.carrier import Receiver, checked_name
from penstock.model.errors import MisuseError
from penstock.session.errors import ClientError
from penstock.system.clock import Clock
from penstock.system.seal import Seal, SealError

__all__ = ["OverUdp"]

_DATAGRAM_BYTES_MAX: Final = 1_400


class _Datagram(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    group: str
    sender: str
    to: str
    payload: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Datagram)


class OverUdp:
    """A carrier between given peers; a member's name is its address, and all members must use the same one for it."""

    def __init__(self, own: str, peers: Iterable[str], *, key: bytes | str = b"") -> None:
        self.name = checked_name(own, "member")
        self._own = _parsed(own)
        self._peers = {checked_name(peer, "peer"): _parsed(peer) for peer in peers if peer != own}
        secret = key.encode() if isinstance(key, str) else key
        # A new number for each carrier: its counters need not continue those of an earlier one.
        self._seal = Seal(secret, secrets.randbits(64), now_ms=Clock().now_ms) if secret else None
        self._group = ""
        self._receiver: Receiver | None = None
        self._transport: asyncio.DatagramTransport | None = None
        self.refused = 0
        """Datagrams that do not belong to this group: malformed, forged, replayed, or for somebody else."""

    async def open(self, group: str, receiver: Receiver) -> None:
        """Listen at this member's address; raises ``ClientError`` if that is not possible."""
        self._group, self._receiver = checked_name(group, "group"), receiver
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(lambda: _Endpoint(self), local_addr=self._own)
        except OSError as error:
            raise ClientError(f"cannot listen at {self.name} (UDP): {error.strerror or error}") from None
        receiver.on_members([self.name, *self._peers])

    def send(self, to: str, payload: bytes) -> None:
        """Send one datagram."""
        if self._transport is None or to not in self._peers:
            return
        data = _encoder.encode(_Datagram(self._group, self.name, to, payload))
        self._transport.sendto(data if self._seal is None else self._seal.seal(data), self._peers[to])

    async def close(self) -> None:
        """Stop listening."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None
            await asyncio.sleep(0)

    def on_datagram(self, data: bytes) -> None:
        """Pass on the message in a datagram, or count the datagram as refused."""
        found = self._opened(data) if len(data) <= _DATAGRAM_BYTES_MAX else None
        if found is None or self._receiver is None:
            self.refused += 1
        else:
            self._receiver.on_message(found.sender, found.payload)

    def _opened(self, data: bytes) -> _Datagram | None:
        try:
            found = _decoder.decode(data if self._seal is None else self._seal.open(data))
        except (SealError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        is_ours = found.group == self._group and found.to == self.name and found.sender in self._peers
        return found if is_ours else None


class _Endpoint(asyncio.DatagramProtocol):
    def __init__(self, carrier: OverUdp) -> None:
        self._carrier = carrier

    def datagram_received(self, data: bytes, addr: Any) -> None:
        del addr
        self._carrier.on_datagram(data)

    def error_received(self, exc: Exception) -> None:
        # A peer is down: what was sent to it is lost.
        del exc


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise MisuseError(f"{address!r} is not a member address such as 127.0.0.1:9000")
    return host.strip("[]"), int(port)
