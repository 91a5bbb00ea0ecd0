"""RabbitMQ, by AMQP 0-9-1, on a node of its own.

Best effort: a transient, exclusive queue for each subscriber, bound to ``amq.direct`` by its topics, and consumers
without acknowledgements. Durable: quorum queues on this one node, which sync before they confirm, persistent messages
and publisher confirms; consumers do not acknowledge, as the subscribers of Penstock in this workload do not either. A
durable message is stored once for each queue it goes to, where Penstock has one log for all. Workers share one quorum
queue, and acknowledge each message by itself.

The name service of Erlang (epmd) is a process of ours, too, and does not outlive the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.live_driver import Dialect
from bench.peers.amqp import (
    FRAME_END,
    AmqpReceiver,
    AmqpWorker,
    ConfirmedPublisher,
    call,
    logged_in,
    method,
    publish_head,
    short,
    table,
)
from bench.peers.endpoints import PeerPublisher, PeerReceiver
from bench.peers.message import PeerMessage, PeerRing
from bench.peers.peer import Peer, Service
from bench.peers.server import Server, running
from penstock.lab.demo_overlay import free_ports

__all__ = ["Node", "RabbitMq", "kept_queue", "name_service"]

_PROGRAM: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_EXCHANGE: Final = "amq.direct"
_DURABLE: Final = 0b0010
_EXCLUSIVE: Final = 0b0100
_NO_ACK: Final = 0b0010
_WINDOW_BYTES: Final = 2 * 1024 * 1024
"""The same as the credit that a broker of Penstock grants."""


@dataclass(slots=True, frozen=True)
class Node:
    """One node, without plugins, whose files are all in a folder that it may share with others."""

    folder: Path
    port: int
    names_port: int
    """Where its name service listens, which it may share, too."""
    links_port: int
    """Where it listens for other nodes, and for the programs of operators."""

    @property
    def name(self) -> str:
        """The name by which other nodes know it."""
        return f"bench{self.port}@localhost"

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which its server runs, and the programs that ask it."""
        folder = self.folder
        return {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self.names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.links_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "environment"),
        }

    @contextmanager
    def running(self, *, is_apart: bool = True) -> Iterator[Server]:
        """Run it, on the brokers' processor or wherever there is one."""
        (self.folder / "plugins").write_text("[].\n", encoding="utf-8")
        own = self.folder / self.name
        own.mkdir()
        with running([_PROGRAM], port=self.port, folder=own, environment=self.environment, is_apart=is_apart) as server:
            yield server


@contextmanager
def name_service(folder: Path, port: int) -> Iterator[Server]:
    """Run the name service by which nodes find each other."""
    own = folder / "epmd"
    own.mkdir()
    with running(["epmd", "-port", str(port), "-address", "127.0.0.1"], port=port, folder=own) as server:
        yield server


class RabbitMq(Peer):
    """RabbitMQ."""

    name = "RabbitMQ"
    package = "rabbitmq-server"
    program = _PROGRAM

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run a node without plugins, whose files are all in the folder."""
        port, names_port, links_port = free_ports(3)
        node = Node(folder, port, names_port=names_port, links_port=links_port)
        with name_service(folder, names_port), node.running() as server:
            yield server

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """AMQP 0-9-1."""
        return _Amqp(is_durable=service.is_durable, kept=kept)

    def ring(self, messages: Sequence[PeerMessage], service: Service) -> PeerRing:
        """Encode messages."""
        heads = (publish_head(each, exchange_name=_EXCHANGE, is_durable=service.is_durable) for each in messages)
        return PeerRing(heads, FRAME_END)

    def open_queue(self, port: int, topic: str) -> None:
        """Make a quorum queue; the publisher binds it."""
        with closing(logged_in(port)) as connection:
            for request, answer in _Amqp(is_durable=True, kept=[]).queue(kept_queue(topic), [topic]):
                call(connection, request, answer)

    def worker(self, port: int, name: str, topic: str, prefetch: int) -> AmqpWorker:
        """Consume from the quorum queue."""
        connection = logged_in(port)
        call(connection, method(60, 10, bytes(4) + prefetch.to_bytes(2) + b"\0"), (60, 11))
        return AmqpWorker(connection, kept_queue(topic), name)


def kept_queue(topic: str) -> str:
    """The name of the queue that keeps a topic."""
    return f"kept-{topic}"


class _Amqp:
    def __init__(self, *, is_durable: bool, kept: Sequence[str]) -> None:
        self._is_durable = is_durable
        self._kept = kept

    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> PeerReceiver:
        connection = logged_in(port)
        for request, answer in self.queue(name, wanted):
            call(connection, request, answer)
        call(connection, method(60, 20, b"\0\0" + short(name) + short("") + bytes([_NO_ACK]) + table({})), (60, 21))
        return AmqpReceiver(connection)

    def publisher(self, port: int, name: str) -> PeerPublisher:
        connection = logged_in(port)
        if not self._is_durable:
            return PeerPublisher(connection)
        for topic in self._kept:
            for request, answer in self.queue(kept_queue(topic), [topic]):
                call(connection, request, answer)
        call(connection, method(85, 10, b"\0"), (85, 11))
        return ConfirmedPublisher(connection, window_bytes=_WINDOW_BYTES)

    def queue(self, name: str, topics: Sequence[str]) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """Declare a queue and bind it: requests, each with the method that answers it."""
        flags, kind = (_DURABLE, table({"x-queue-type": "quorum"})) if self._is_durable else (_EXCLUSIVE, table({}))
        yield method(50, 10, b"\0\0" + short(name) + bytes([flags]) + kind), (50, 11)
        for topic in topics:
            bind = b"\0\0" + short(name) + short(_EXCHANGE) + short(topic) + b"\0" + table({})
            yield method(50, 20, bind), (50, 21)
