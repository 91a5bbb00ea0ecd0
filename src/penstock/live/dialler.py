"""Keeps one link up: dials, waits for its end, and dials again after a growing and random delay.

The delay grows also when the neighbour answers but does not keep the connection (another overlay, a wrong token):
only a link that has lasted starts anew.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from random import Random
from typing import Final

from penstock.live.connection import Connection
from penstock.live.overlay import BrokerPlace

__all__ = ["DIAL_S_MAX", "FIRST_RETRY_S", "LASTED_S", "RETRY_S_MAX", "Dialler", "retry_s"]

FIRST_RETRY_S: Final = 0.05
RETRY_S_MAX: Final = 5.0
DIAL_S_MAX: Final = 5.0
"""Time for a connection to be made, TLS included."""
LASTED_S: Final = 5.0
"""A link that held so long was a good one."""


class Dialler:
    """Calls one neighbour, again and again."""

    def __init__(
        self,
        place: BrokerPlace,
        make: Callable[[], Connection],
        *,
        context: ssl.SSLContext | None,
        on_failed: Callable[[str, str], None],
        rng: Random,
    ) -> None:
        self._place, self._make, self._context, self._on_failed, self._rng = place, make, context, on_failed, rng

    async def run(self) -> None:
        """Keep the link up until cancelled."""
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            started_s = loop.time()
            await self._dial_once()
            failures = 0 if loop.time() - started_s > LASTED_S else failures + 1
            await asyncio.sleep(retry_s(failures, self._rng))

    async def _dial_once(self) -> None:
        place = self._place
        try:
            async with asyncio.timeout(DIAL_S_MAX):
                _, connection = await asyncio.get_running_loop().create_connection(
                    self._make,
                    place.host,
                    place.port,
                    ssl=self._context,
                    server_hostname=place.host if self._context is not None else None,
                )
        except (OSError, TimeoutError) as error:
            self._on_failed(place.name, str(error) or type(error).__name__)
        else:
            await connection.ended.wait()


def retry_s(failures: int, rng: Random) -> float:
    """How long to wait after so many failures in a row: doubling, bounded, and never the same for all."""
    longest = min(RETRY_S_MAX, FIRST_RETRY_S * 2.0 ** min(failures, 16))
    return longest * (0.5 + 0.5 * rng.random())
