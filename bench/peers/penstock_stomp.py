"""Penstock as a peer to which the driver speaks STOMP: the broker of this tree, with the bytes that ActiveMQ gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.peers.peer import Service
from bench.peers.penstock import plan_of
from bench.peers.server import Server, as_broker
from bench.peers.stomp import StompPeer
from penstock.lab.demo_overlay import DemoOverlay, free_ports

__all__ = ["StompPenstock"]


class StompPenstock(StompPeer):
    """A broker of this tree that serves STOMP."""

    name = "Penstock by STOMP"
    package = ""
    program = ""

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run a broker of this tree."""
        (port,) = free_ports(1)
        table = f"[stomp]\nport = {port}\n"
        with ExitStack() as stack:
            with as_broker():
                overlay = DemoOverlay(plan_of(service), folder=folder, tables=lambda _name: table)
                stack.enter_context(overlay)
            yield Server(overlay.pid("b1"), port)

    def missing(self) -> str:
        """Nothing: it is here."""
        return ""
