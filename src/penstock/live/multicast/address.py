"""Parses addresses of multicast groups, and opens the sockets that join them, IPv4 and IPv6."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from penstock.live.errors import ConfigError

__all__ = ["GroupAddress", "interface_number", "receiving_socket", "sending_socket"]

_RECEIVE_BUFFER_BYTES: Final = 1024 * 1024


@dataclass(slots=True, frozen=True, order=True)
class GroupAddress:
    """A multicast group: an address and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> GroupAddress:
        """The group that ``239.1.2.3:5000`` or ``[ff15::1]:5000`` stands for."""
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        try:
            address = ip_address(host)
        except ValueError:
            raise ConfigError(f"{text!r} is not a group such as 239.1.2.3:5000 or [ff15::1]:5000") from None
        if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"{text!r} has no port from 1 to 65535")
        if not address.is_multicast:
            raise ConfigError(f"{host} is not a multicast address (224.0.0.0/4 or ff00::/8)")
        return cls(str(address), int(port))

    @property
    def family(self) -> socket.AddressFamily:
        """IPv4 or IPv6."""
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    def target(self, index: int) -> tuple[Any, ...]:
        """The socket address to send to, through the interface of this number; 0 lets the system choose."""
        return (self.host, self.port, 0, index) if self.family is socket.AF_INET6 else (self.host, self.port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def interface_number(name: str) -> int:
    """The number of an interface; 0 if the name is empty."""
    if not name:
        return 0
    try:
        return socket.if_nametoindex(name)
    except OSError:
        known = ", ".join(each for _, each in socket.if_nameindex())
        raise ConfigError(f"there is no interface {name!r}, only {known}") from None


def receiving_socket(group: GroupAddress, interface: str) -> socket.socket:
    """Open a socket that receives the group, as may others on this host; raises ``ConfigError`` if that fails."""
    index = interface_number(interface)
    made = socket.socket(group.family, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        # Bound to the group itself: packets to other groups on the same port do not arrive here.
        made.bind(group.target(index))
        packed = socket.inet_pton(group.family, group.host)
        if group.family is socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, packed + struct.pack("@i", index))
        else:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, packed + bytes(4) + struct.pack("@i", index))
        made.setblocking(False)  # noqa: FBT003 - the standard library's signature
    except OSError as error:
        made.close()
        raise ConfigError(f"cannot join group {group}{_on(interface)}: {error.strerror or error}") from None
    return made


def sending_socket(family: socket.AddressFamily, interface: str, *, hops: int) -> socket.socket:
    """Open a socket that sends to groups, no farther than ``hops``."""
    index = interface_number(interface)
    made = socket.socket(family, socket.SOCK_DGRAM)
    if family is socket.AF_INET6:
        if index:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
    else:
        if index:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, bytes(8) + struct.pack("@i", index))
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, hops)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    made.setblocking(False)  # noqa: FBT003 - the standard library's signature
    return made


def _on(interface: str) -> str:
    return f" on interface {interface}" if interface else ""
