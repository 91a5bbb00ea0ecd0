"""Penstock as a peer of the others: the broker of this tree, driven by its own protocol.

It takes part twice: as it is by default, with a record of where each message went, and with nothing recorded, as the
others do. The difference is what tracking costs.

A publisher's batch is one frame, and the broker acknowledges as it grants credit. A connection gets a message once,
with the numbers of all its subscriptions that match, where the others deliver it once per subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.live_driver import PENSTOCK, Dialect
from bench.live_load import Load
from bench.peers.message import PeerMessage
from bench.peers.peer import Interest, Peer, Service
from bench.peers.server import Server, as_broker
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan

__all__ = ["PenstockPeer", "UntrackedPenstock", "plan_of"]


class PenstockPeer(Peer):
    """A broker of this tree."""

    name = "Penstock"
    package = ""
    program = ""
    is_one_per_connection = True

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run a broker of this tree."""
        with ExitStack() as stack:
            with as_broker():
                overlay = stack.enter_context(DemoOverlay(self.plan(service), folder=folder))
            yield Server(overlay.pid("b1"), overlay.port("b1"))

    def plan(self, service: Service) -> OverlayPlan:
        """The overlay that is measured."""
        return plan_of(service)

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """Penstock's own protocol; its log keeps everything."""
        return PENSTOCK

    def ring(self, messages: Sequence[PeerMessage], service: Service) -> Load:
        """Encode messages."""
        return Load([each.attributes for each in messages])

    def wanted(self, interest: Interest, service: Service) -> str:
        """The selector."""
        return interest.selector

    def missing(self) -> str:
        """Nothing: it is here."""
        return ""


class UntrackedPenstock(PenstockPeer):
    """A broker of this tree that does not record where messages go."""

    name = "Penstock, nothing recorded"

    def plan(self, service: Service) -> OverlayPlan:
        """The same overlay without tracking."""
        return replace(plan_of(service), tracking="null")


def plan_of(service: Service) -> OverlayPlan:
    """One broker of the service class; without heartbeats, which would disturb the measurement."""
    return OverlayPlan(
        {"b1": ("b1.a",)},
        defaults={"heartbeat_ms": 60_000, "silent_ms": 600_000},
        service="guaranteed" if service is Service.DURABLE else "best-effort",
    )
