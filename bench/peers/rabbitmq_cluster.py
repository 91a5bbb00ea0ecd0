"""RabbitMQ as a cluster of three nodes: a quorum queue with a member on each, which confirms what a majority synced.

Nodes are started with the names of all, and join each other by themselves. The publisher connects to the node that
leads the queue, the best place for it. Before anything is measured we ask that all three members are there.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.live_driver import DriverError
from bench.peers.peer import Service
from bench.peers.rabbitmq import Node, RabbitMq, kept_queue, name_service
from bench.peers.server import Server
from bench.peers.workloads import QUOTES_TOPIC
from penstock.lab.demo_overlay import free_ports

__all__ = ["RabbitMqCluster", "unready"]

_NODES: Final = 3
_ASK_S_MAX: Final = 60.0
_POLL_S: Final = 0.2


class RabbitMqCluster(RabbitMq):
    """RabbitMQ, three nodes."""

    name = "RabbitMQ, three nodes"

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run the nodes and make the queue."""
        names_port, *ports = free_ports(1 + 2 * _NODES)
        nodes = [
            Node(folder, port, names_port=names_port, links_port=links_port)
            for port, links_port in zip(ports[:_NODES], ports[_NODES:], strict=True)
        ]
        _write_settings(folder, nodes)
        with ExitStack() as stack:
            stack.enter_context(name_service(folder, names_port))
            # One after the other: nodes that start together may each found a cluster of its own.
            servers = [stack.enter_context(node.running(is_apart=False)) for node in nodes]
            first = servers[0]
            self.open_queue(first.port, QUOTES_TOPIC)
            _wait_for_members(nodes)
            yield Server(first.pid, first.port, others=[each.pid for each in servers[1:]])


def unready(listed: Sequence[dict[str, Any]], nodes: Sequence[Node]) -> str:
    """What the queues listed by ``rabbitmqctl`` lack; empty if there is one, with all members, led by the first node.

    >>> unready([], [])
    'there are 0 queues instead of one'
    """
    if len(listed) != 1:
        return f"there are {len(listed)} queues instead of one"
    (queue,) = listed
    names = sorted(node.name for node in nodes)
    if queue["name"] != kept_queue(QUOTES_TOPIC) or queue["type"] != "quorum":
        return f"{queue['name']} is a {queue['type']} queue"
    if sorted(queue["members"]) != names or sorted(queue["online"]) != names:
        return f"of {queue['members']} only {queue['online']} are online, and not {names}"
    return "" if queue["leader"] == nodes[0].name else f"{queue['leader']} leads, and not {nodes[0].name}"


def _write_settings(folder: Path, nodes: Sequence[Node]) -> None:
    lines = ["cluster_formation.peer_discovery_backend = classic_config"]
    lines += [f"cluster_formation.classic_config.nodes.{place} = {node.name}" for place, node in enumerate(nodes, 1)]
    (folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Nodes talk to those that know the same secret; each would make one of its own.
    cookie = folder / ".erlang.cookie"
    cookie.write_text("BENCH", encoding="utf-8")
    cookie.chmod(0o400)


def _wait_for_members(nodes: Sequence[Node]) -> None:
    deadline_s = time.monotonic() + _ASK_S_MAX
    while lacking := unready(_listed(nodes[0]), nodes):
        if time.monotonic() > deadline_s:
            raise DriverError(f"the cluster of RabbitMQ did not get ready: {lacking}")
        time.sleep(_POLL_S)


def _listed(node: Node) -> list[dict[str, Any]]:
    """All queues, as the program of operators sees them."""
    program = Path(RabbitMq.program).with_name("rabbitmqctl")
    columns = ["name", "type", "members", "online", "leader"]
    command = [str(program), "--quiet", "--node", node.name, "list_queues", *columns, "--formatter", "json"]
    done = subprocess.run(
        command, env={**os.environ, **node.environment}, capture_output=True, text=True, check=False, timeout=_ASK_S_MAX
    )
    if done.returncode != 0:
        raise DriverError(f"rabbitmqctl failed: {done.stderr.strip() or done.stdout.strip()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
