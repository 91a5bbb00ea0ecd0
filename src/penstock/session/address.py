"""Addresses of brokers as applications write them: ``penstock://host:port``, several separated by commas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.session.errors import AddressError

__all__ = ["DEFAULT_PORT", "Address", "parse_addresses"]

DEFAULT_PORT: Final = 7000
"""The port to use if an address names none."""

_SCHEMES: Final = {"penstock": False, "penstocks": True}


@dataclass(slots=True, frozen=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int
    tls: bool = False
    """Whether the connection is encrypted, and the broker presents a certificate."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'penstocks' if self.tls else 'penstock'}://{host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parses addresses, in the order in which they are tried; raises ``AddressError``.

    >>> [str(address) for address in parse_addresses("penstock://sb1:7000,sb2,penstocks://[::1]:7443")]
    ['penstock://sb1:7000', 'penstock://sb2:7000', 'penstocks://[::1]:7443']
    """
    addresses: list[Address] = []
    tls: bool | None = None
    for part in map(str.strip, text.split(",")):
        scheme, separator, rest = part.rpartition("://")
        if separator:
            if scheme not in _SCHEMES:
                raise AddressError(f"address {part!r} begins with {scheme!r}, not with penstock:// or penstocks://")
            tls = _SCHEMES[scheme]
        if tls is None:
            raise AddressError(f"address {part!r} does not begin with penstock:// or penstocks://")
        addresses.append(_parse_host_port(rest.removesuffix("/"), tls=tls))
    return tuple(addresses)


def _parse_host_port(text: str, *, tls: bool) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or port.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(f"address {text!r} has several colons; write an IPv6 address as [::1]:{DEFAULT_PORT}")
    if not host or any(char in host for char in "/@?#[] "):
        raise AddressError(f"address {text!r} has no host that could be looked up")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise AddressError(f"address {text!r} has port {port!r}, which is not in 1 .. 65535")
    return Address(host, int(port), tls)
