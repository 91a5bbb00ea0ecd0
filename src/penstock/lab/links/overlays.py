"""Real brokers whose links an experiment controls: one interface to links of relays and of namespaces."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from penstock.client.client import Client, connect
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.throttled import ThrottledLink
from penstock.session.settings import ClientSettings

__all__ = ["Link", "LinkedOverlay", "RelayedOverlay"]

Link: TypeAlias = tuple[str, str]
"""The broker that dials, and the one that listens."""


class LinkedOverlay(Protocol):
    """Brokers as processes, and their links."""

    def __enter__(self) -> Self:
        """Start all brokers and links."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all brokers and links."""

    def client(self, broker: str, name: str, settings: ClientSettings | None = None) -> Client:
        """Make a client of a broker, not connected yet."""

    def limit(self, link: Link, bytes_s: float) -> None:
        """Set the bandwidth of both directions of a link; 0 for no limit."""

    def cut(self, link: Link) -> None:
        """Let nothing pass through a link."""

    def restore(self, link: Link) -> None:
        """Let a link carry messages again."""

    def passed_bytes(self, link: Link) -> int:
        """Bytes that the link has carried from the first broker to the second."""

    def check(self) -> None:
        """Raise ``BrokerProcessError`` if a broker has ended by itself."""

    async def linked(self) -> None:
        """Wait until every broker knows every other."""


class RelayedOverlay:
    """Brokers on loopback, with a relay process for each link; use it with ``with``."""

    def __init__(self, plan: OverlayPlan, limits: LinkLimits | None = None) -> None:
        self.plan = plan
        self._limits = limits or LinkLimits()
        self.brokers = DemoOverlay(plan, detours=True)
        self._links: dict[Link, ThrottledLink] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.brokers)
            for link, port in self.brokers.detours.items():
                relay = ThrottledLink(port, self.brokers.port(link[1]), self._limits)
                self._links[link] = stack.enter_context(relay)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def client(self, broker: str, name: str, settings: ClientSettings | None = None) -> Client:
        """Make a client of a broker, not connected yet."""
        return connect(self.brokers.url(broker), name=name, settings=settings)

    def limit(self, link: Link, bytes_s: float) -> None:
        """Set the bandwidth of both directions of a link; 0 for no limit."""
        self._links[link].limit(there_bytes_s=bytes_s, back_bytes_s=bytes_s)

    def cut(self, link: Link) -> None:
        """Reset the link's connection, and let no new one be made."""
        self._links[link].cut()

    def restore(self, link: Link) -> None:
        """Let connections be made again."""
        self._links[link].restore()

    def passed_bytes(self, link: Link) -> int:
        """Bytes that the link has carried from the first broker to the second."""
        return self._links[link].figures().passed_bytes["there"]

    def check(self) -> None:
        """Raise ``BrokerProcessError`` if a broker has ended by itself."""
        self.brokers.check()

    async def linked(self) -> None:
        """Wait until every broker knows every other."""
        await self.brokers.linked()
