"""The network between the candidates and the servers of their database: a relay for each pair, which can be cut."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from penstock.lab.delivery.kill9.proxy import LinkProxy

__all__ = ["CutKind", "DatabaseNetwork"]

CutKind: TypeAlias = Literal["cut", "stall", "silence"]

_HOST: Final = "127.0.0.1"


class DatabaseNetwork:
    """The relays; use it with ``async with``."""

    def __init__(self, brokers: Sequence[str], ports: Sequence[int], *, user: str = "penstock") -> None:
        """``ports`` are those of the servers."""
        self._ports, self._user = tuple(ports), user
        self._relays = {broker: [LinkProxy(0, port) for port in ports] for broker in brokers}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for relays in self._relays.values():
                for relay in relays:
                    await stack.enter_async_context(relay)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def url(self, broker: str) -> str:
        """Where a broker finds the servers: behind its relays, if it has any."""
        ports = [relay.port for relay in self._relays[broker]] if broker in self._relays else self._ports
        hosts = ",".join(f"{_HOST}:{port}" for port in ports)
        return f"postgresql://{self._user}@{hosts}/postgres"

    def disturb(self, broker: str, kind: CutKind) -> None:
        """Cut a broker off from all servers: let connections end, or just nothing pass."""
        for relay in self._relays[broker]:
            if kind == "cut":
                relay.cut()
            else:
                relay.stall()

    def mend(self, broker: str, kind: CutKind) -> None:
        """Let the broker reach all servers again; what was held back is delivered, unless its connections end."""
        for relay in self._relays[broker]:
            if kind == "silence":
                relay.cut()
            relay.restore()
