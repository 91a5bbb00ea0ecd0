"""Keeps links up: dials a neighbour, waits until the link ends, and redials after a growing and random delay.

The delay also grows when the neighbour answers but drops the connection (another overlay, a wrong token): only a link
that has lasted resets it. ``Diallers`` holds the diallers of one node, which may come and go.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from penstock.live.connection import Connection
from penstock.live.overlay import BrokerPlace

__all__ = ["DIAL_S_MAX", "FIRST_RETRY_S", "LASTED_S", "RETRY_S_MAX", "Dialler", "Diallers", "retry_s"]

FIRST_RETRY_S: Final = 0.05
RETRY_S_MAX: Final = 5.0
DIAL_S_MAX: Final = 5.0
"""Timeout for making a connection, TLS included."""
LASTED_S: Final = 5.0
"""A link that held this long resets the delay."""


class Dialler:
    """Dials one neighbour, again and again."""

    def __init__(
        self,
        place: BrokerPlace,
        make: Callable[[], Connection],
        *,
        context: ssl.SSLContext | None,
        on_failed: Callable[[str, str], None],
        rng: Random,
    ) -> None:
        self._place = place
        self._make = make
        self._context = context
        self._on_failed = on_failed
        self._rng = rng

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
        except ValueError:
            self._on_failed(place.name, f"{place.host!r} is not a valid address")
        else:
            await connection.ended.wait()


class Diallers:
    """Dials all neighbours that one node has to dial, each in its own task."""

    def __init__(
        self, make: Callable[[str], Connection], *, on_failed: Callable[[str, str], None], rng: Random
    ) -> None:
        self._make = make
        self._on_failed = on_failed
        self._rng = rng
        self._calls: dict[str, tuple[BrokerPlace, asyncio.Task[None]]] = {}
        self._cancelled: dict[asyncio.Task[None], None] = {}

    def call(self, places: Sequence[BrokerPlace], context: ssl.SSLContext | None) -> None:
        """Dial these neighbours, and no others; one whose address has not changed is not dialled again."""
        wanted = {place.name: place for place in places}
        for name, (place, _) in list(self._calls.items()):
            if name not in wanted or _address(wanted[name]) != _address(place):
                self._cancel(name)
        for name, place in wanted.items():
            if name not in self._calls:
                rng = Random(self._rng.randrange(2**63))
                dialler = Dialler(place, partial(self._make, name), context=context, on_failed=self._on_failed, rng=rng)
                self._calls[name] = place, asyncio.create_task(dialler.run(), name=f"link to {name}")

    async def stop(self) -> None:
        """Stop dialling."""
        for name in list(self._calls):
            self._cancel(name)
        await asyncio.gather(*self._cancelled, return_exceptions=True)

    def _cancel(self, name: str) -> None:
        _, task = self._calls.pop(name)
        task.cancel()
        self._cancelled[task] = None
        task.add_done_callback(lambda done: self._cancelled.pop(done, None))


def _address(place: BrokerPlace) -> tuple[str, int]:
    return place.host, place.port


def retry_s(failures: int, rng: Random) -> float:
    """How long to wait after this many failures in a row: doubling, bounded, and with random jitter."""
    longest = min(RETRY_S_MAX, FIRST_RETRY_S * 2.0 ** min(failures, 16))
    return longest * (0.5 + 0.5 * rng.random())
