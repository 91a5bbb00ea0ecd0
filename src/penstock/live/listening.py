"""Has a broker listen at its address, or says in the words of its overlay file why that cannot be."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace

__all__ = ["listen"]

_BACKLOG: Final = 1_024
"""Connections that may wait to be accepted: after a broker's restart all its clients come at once."""


async def listen(place: BrokerPlace) -> list[socket.socket]:
    """Sockets that listen at all addresses of the broker's host; raises ``ConfigError`` if one cannot be had."""
    sockets: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            place.listens_at, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
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
            reason = "that is no address"
        raise ConfigError(
            f"{at}broker {place.name} cannot listen at {place.listens_at}:{place.port}: {reason}"
        ) from None
    return sockets
