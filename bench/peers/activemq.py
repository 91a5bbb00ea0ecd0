"""ActiveMQ Classic, by STOMP on its NIO connector, without persistence.

The JVM has the heap that Debian configures, and is warmed up as long as all the others: its compiler would profit from
more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.peers.peer import Service
from bench.peers.server import Server, running
from bench.peers.stomp import StompPeer
from penstock.lab.demo_overlay import free_ports

__all__ = ["ActiveMq"]

_HOME: Final = "/usr/share/activemq"
_HEAP: Final = "512M"


class ActiveMq(StompPeer):
    """Apache ActiveMQ Classic."""

    name = "ActiveMQ"
    package = "activemq"
    program = f"{_HOME}/bin/activemq.jar"

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run a broker in a JVM of its own; the init script of Debian would make it a daemon."""
        (port,) = free_ports(1)
        classes = ":".join((self.program, f"{_HOME}/lib/*", f"{_HOME}/lib/optional/*"))
        broker = f"broker:(stomp+nio://127.0.0.1:{port})?persistent=false&useJmx=false&dataDirectory={folder}"
        command = [
            "java",
            f"-Xms{_HEAP}",
            f"-Xmx{_HEAP}",
            f"-Dactivemq.home={_HOME}",
            f"-Dactivemq.base={folder}",
            "-cp",
            classes,
            "org.apache.activemq.console.Main",
            "start",
            broker,
        ]
        with running(command, port=port, folder=folder) as server:
            yield server
