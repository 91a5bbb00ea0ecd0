"""Real brokers in network namespaces: one namespace for each process, and links of the kernel in between."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from penstock.client.client import Client, connect
from penstock.lab.demo_overlay import BrokerProcessError, DemoOverlay, OverlayPlan
from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.namespaces import Namespaces
from penstock.lab.links.overlays import Link
from penstock.session.settings import ClientSettings

__all__ = ["AddressedPlan", "NamespacedOverlay"]

_LINK_S_MAX: Final = 30.0
_POLL_S: Final = 0.05


@dataclass(slots=True, frozen=True)
class AddressedPlan(OverlayPlan):
    """A plan whose brokers have addresses beyond loopback, and therefore authenticate their peers."""

    within: OverlayPlan = field(default_factory=lambda: OverlayPlan({}))
    """The plan without addresses and tokens."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Tokens by client name."""
    link_token: str = field(default="", repr=False)

    def toml(self, ports: Mapping[str, int]) -> str:
        """The text of the overlay file."""
        text = self.within.toml(ports)
        for name, address in self.addresses.items():
            text = text.replace(f"[brokers.{name}]\n", f'[brokers.{name}]\nhost = "{address}"\n')
        lines = ["[security]", f'link_token = "{self.link_token}"']
        for name, token in self.clients.items():
            lines += ["[[clients]]", f'name = "{name}"', f'token = "{token}"']
        return text + "\n".join(lines) + "\n"


class NamespacedOverlay:
    """Brokers in namespaces; use it with ``with``."""

    def __init__(self, plan: OverlayPlan, limits: LinkLimits | None = None, *, clients: tuple[str, ...] = ()) -> None:
        self.plan = plan
        self._tokens = {name: secrets.token_hex(16) for name in (*clients, "looker")}
        self._namespaces = Namespaces(tuple(plan.pubends), plan.links, limits)
        self._brokers: DemoOverlay
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            spaces = stack.enter_context(self._namespaces)
            addresses = {name: spaces.address(name) for name in self.plan.pubends}
            addressed = AddressedPlan(
                self.plan.pubends,
                self.plan.links,
                within=self.plan,
                addresses=addresses,
                clients=self._tokens,
                link_token=secrets.token_hex(16),
            )
            # Called with the file, --name and the broker's name, on which the namespace's name is based.
            script = f'exec ip netns exec {spaces.namespace("")}"$3" "$0" -m penstock.live "$@"'
            command = ("sh", "-c", script, sys.executable)
            self._brokers = stack.enter_context(DemoOverlay(addressed, command=command))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def client(self, broker: str, name: str, settings: ClientSettings | None = None) -> Client:
        """Make a client of a broker, not connected yet; its name must be one of those given to the constructor."""
        url = f"penstock://{self._namespaces.address(broker)}:{self._brokers.port(broker)}"
        return connect(url, name=name, token=self._tokens[name], settings=settings)

    def limit(self, link: Link, bytes_s: float) -> None:
        """Set the bandwidth of both directions of a link; 0 for no limit."""
        self._namespaces.limit(link, there_bytes_s=bytes_s, back_bytes_s=bytes_s)

    def cut(self, link: Link) -> None:
        """Take the link down."""
        self._namespaces.cut(link)

    def restore(self, link: Link) -> None:
        """Bring the link up."""
        self._namespaces.restore(link)

    def passed_bytes(self, link: Link) -> int:
        """Bytes that have left the first broker over the link."""
        return self._namespaces.passed_bytes(link)

    def check(self) -> None:
        """Raise ``BrokerProcessError`` if a broker has ended by itself."""
        self._brokers.check()

    async def linked(self) -> None:
        """Wait until every broker knows every other, and has all its links."""
        try:
            async with asyncio.timeout(_LINK_S_MAX):
                await asyncio.gather(*map(self._linked, self.plan.pubends))
        except TimeoutError:
            raise BrokerProcessError(f"not all brokers found each other within {_LINK_S_MAX:.0f} s") from None

    async def _linked(self, name: str) -> None:
        wanted = {right if name == left else left for left, right in self.plan.links if name in (left, right)}
        async with self.client(name, "looker") as client:
            while True:
                status = await client.status()
                if wanted <= set(status.links) and set(self.plan.pubends) <= set(status.brokers):
                    return
                await asyncio.sleep(_POLL_S)
