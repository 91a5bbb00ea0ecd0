"""JetStream as a cluster of three servers: a stream with a replica on each, which acknowledges what a majority has.

Each server writes to files before it counts, and syncs these files every two minutes at most, not before an
acknowledgement: a message that a majority has may be lost if the machines of all of them fail at once. The publisher
connects to the server that leads the stream, the best place for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.live_driver import DriverError
from bench.peers.jetstream import ask, configuration
from bench.peers.nats_server import NatsServer
from bench.peers.peer import Service
from bench.peers.server import Server, running
from bench.peers.workloads import QUOTES_TOPIC
from penstock.lab.demo_overlay import free_ports

__all__ = ["NatsCluster", "unready"]

_SERVERS: Final = 3
_READY_S_MAX: Final = 60.0
_ANSWER_S_MAX: Final = 2.0
_POLL_S: Final = 0.1


class NatsCluster(NatsServer):
    """NATS, three servers with JetStream."""

    name = "NATS JetStream R3, not synced"

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run the servers and make the stream."""
        ports = free_ports(2 * _SERVERS)
        clients = {f"n{place}": port for place, port in enumerate(ports[:_SERVERS])}
        links = dict(zip(clients, ports[_SERVERS:], strict=True))
        with ExitStack() as stack:
            servers = {
                name: stack.enter_context(self._running(folder / name, name, port, links))
                for name, port in clients.items()
            }
            leader = servers.pop(_open_stream(clients))
            yield Server(leader.pid, leader.port, others=[each.pid for each in servers.values()])

    @contextmanager
    def _running(self, folder: Path, name: str, port: int, links: Mapping[str, int]) -> Iterator[Server]:
        folder.mkdir()
        routes = ", ".join(f'"nats://127.0.0.1:{link}"' for other, link in links.items() if other != name)
        text = f'server_name: "{name}"\nhost: "127.0.0.1"\nport: {port}\nping_interval: "10m"\n'
        text += f'cluster {{ name: "bench", host: "127.0.0.1", port: {links[name]}, routes: [{routes}] }}\n'
        settings = folder / "nats.conf"
        settings.write_text(text + configuration(str(folder / "jetstream")), encoding="utf-8")
        with running([self.program, "-c", str(settings)], port=port, folder=folder, is_apart=False) as server:
            yield server


def unready(stream: Mapping[str, Any], names: Sequence[str]) -> str:
    """What a stream lacks, as its information says; empty if it has a leader and all replicas, up to date.

    >>> unready({"cluster": {"leader": "n0", "replicas": [{"name": "n1", "current": True}]}}, ["n0", "n1"])
    ''
    """
    cluster = stream.get("cluster", {})
    leader = cluster.get("leader", "")
    current = [each["name"] for each in cluster.get("replicas", []) if each["current"]]
    missing = sorted({*names} - {leader, *current})
    return f"{', '.join(missing)} of {', '.join(names)} are not up to date" if missing else ""


def _open_stream(ports: Mapping[str, int]) -> str:
    """Make the stream, wait for its replicas, and return the name of the server that leads it."""
    deadline_s = time.monotonic() + _READY_S_MAX
    while True:
        try:
            stream = _made(next(iter(ports.values())))
            lacking = unready(stream, list(ports))
        except DriverError as error:
            # The servers have not elected a leader yet.
            stream, lacking = {}, str(error)
        if not lacking:
            return str(stream["cluster"]["leader"])
        if time.monotonic() > deadline_s:
            raise DriverError(f"the cluster of NATS did not get ready: {lacking}")
        time.sleep(_POLL_S)


def _made(port: int) -> dict[str, Any]:
    """Make the stream unless it is there, and return what is known of it."""
    settings = {"name": QUOTES_TOPIC, "subjects": [QUOTES_TOPIC], "storage": "file", "num_replicas": _SERVERS}
    ask(port, f"$JS.API.STREAM.CREATE.{QUOTES_TOPIC}", settings, answer_s_max=_ANSWER_S_MAX)
    return ask(port, f"$JS.API.STREAM.INFO.{QUOTES_TOPIC}", {}, answer_s_max=_ANSWER_S_MAX)
