"""Has a broker listen at its address, or says in the words of its overlay file why that cannot be."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import Final

from penstock.live.dialler import DIAL_S_MAX
from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace

__all__ = ["listen"]

_BACKLOG: Final = 1_024
"""Connections that may wait to be accepted: after a broker's restart all its clients come at once."""


async def listen(
    place: BrokerPlace, make: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None
) -> asyncio.Server:
    """A server that makes a protocol for each connection; raises ``ConfigError`` if the address cannot be had."""
    try:
        return await asyncio.get_running_loop().create_server(
            make,
            place.listens_at,
            place.port,
            ssl=context,
            ssl_handshake_timeout=DIAL_S_MAX if context is not None else None,
            backlog=_BACKLOG,
        )
    except OSError as error:
        at = f"{place.where}: " if place.where else ""
        # asyncio's own text repeats the address.
        reason = os.strerror(error.errno) if error.errno else error
        raise ConfigError(
            f"{at}broker {place.name} cannot listen at {place.listens_at}:{place.port}: {reason}"
        ) from None
