"""Opens a broker's listening sockets, and finds secrets that others can read, on the wire or on disk.

Errors name the broker's place in the overlay file; a broker warns of exposed secrets when it starts.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from stat import S_IROTH
from typing import Final

from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace, Overlay, is_loopback

__all__ = ["exposed_secrets", "listen"]

_BACKLOG: Final = 1_024
"""Connections that may wait to be accepted: after a broker's restart all its clients reconnect at once."""


async def listen(place: BrokerPlace, port: int) -> list[socket.socket]:
    """Listen on all addresses of the broker's host; raises ``ConfigError`` if one of them is not available."""
    sockets: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            place.listens_at, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            made = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
            sockets.append(made)
            made.settimeout(0.0)
    except (OSError, UnicodeError, ValueError) as error:
        for each in sockets:
            each.close()
        at = f"{place.where}: " if place.where else ""
        # The library's own text repeats the address.
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number and number > 0 else error
        if not isinstance(error, OSError):
            reason = "not a valid address"
        raise ConfigError(f"{at}broker {place.name} cannot listen at {place.listens_at}:{port}: {reason}") from None
    return sockets


def exposed_secrets(overlay: Overlay, place: BrokerPlace) -> Iterator[tuple[str, dict[str, str]]]:
    """Log events with their fields, each with advice on what to do."""
    if place.tls is None and not is_loopback(place.listens_at):
        advice = "tokens of clients can be read on the way; use TLS"
        yield "unencrypted", {"address": place.listens_at, "advice": advice}
    security = overlay.security
    if overlay.source is not None and (security.link_token or security.admin_token or overlay.access.tokens):
        yield from _readable(overlay.source, "tokens")
    if place.tls is not None and place.tls.key is not None:
        yield from _readable(place.tls.key, "the key")


def _readable(path: Path, what: str) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        mode = path.stat().st_mode
    except OSError:
        # Whatever needs the file reports that; it may have been removed since it was read.
        return
    if mode & S_IROTH:
        advice = f"every user of this machine can read {what}; chmod o-rwx"
        yield "secret-readable", {"file": str(path), "advice": advice}
