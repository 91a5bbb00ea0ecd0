"""Starts a broker of this tree that speaks STOMP over TCP and WebSocket, for the conformance script.

It has a guaranteed pubend, one that guarantees nothing (for ``persistent:false``), and one for dead letters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.peers.server import running
from bench.stomp.stage import Target
from penstock.lab.demo_overlay import free_ports

__all__ = ["overlay_text", "penstock"]

_HOST: Final = "127.0.0.1"
_LOGIN: Final = "known"
_PASSCODE: Final = "right"
_DELIVERIES_MAX: Final = 7


@contextmanager
def penstock() -> Iterator[Target]:
    """Run a broker on loopback, with its files in a temporary folder, and end it afterwards."""
    with TemporaryDirectory(prefix="penstock-stomp-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        port, stomp_port, web_port = free_ports(3)
        file = folder / "overlay.toml"
        file.write_text(overlay_text(port, stomp_port=stomp_port, web_port=web_port), encoding="utf-8")
        # The file has a token.
        file.chmod(0o600)
        command = [sys.executable, "-m", "penstock.live", str(file), "--name", "b1"]
        with running(command, port=stomp_port, folder=folder, is_apart=False):
            yield Target(
                "Penstock",
                _HOST,
                stomp_port,
                web=(_HOST, web_port),
                dead_letters="/pubend/dead",
                login=_LOGIN,
                passcode=_PASSCODE,
                deliveries_max=_DELIVERIES_MAX,
            )


def overlay_text(port: int, *, stomp_port: int, web_port: int) -> str:
    """The text of the overlay file."""
    return f"""\
overlay = "conformance"

[defaults]
dead_letters = "dead"

[security]
link_token = "the only broker needs none, but must have one"

[[clients]]
name = "{_LOGIN}"
token = "{_PASSCODE}"

[[access]]
clients = "{_LOGIN}"
publish = true
subscribe = true
durable = "%"

[brokers.b1]
port = {port}
pubends = ["kept", "dead", "ticks"]
best_effort = ["ticks"]

[stomp]
deliveries_max = {_DELIVERIES_MAX}
heartbeat_ms = 1000
nack_delay_ms = 200
port = {stomp_port}
websocket_port = {web_port}
"""
