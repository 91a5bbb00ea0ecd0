"""What a peer is: a broker that can be started here, and the dialect in which the driver talks to it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar, Protocol

from bench.live_driver import Dialect
from bench.live_load import Ring
from bench.peers.message import PeerMessage
from bench.peers.server import Server

__all__ = ["Interest", "Peer", "Service", "Working", "install", "version_of"]


class Service(Enum):
    """What a workload asks of a broker."""

    BEST_EFFORT = "best effort"
    """Subscriptions to topics, nothing kept."""
    SELECTORS = "selectors"
    """Subscriptions to one topic by its content, nothing kept."""
    DURABLE = "durable"
    """Every message synced before it is acknowledged."""
    WORK = "work"
    """The same, in a queue from which each message goes to one worker, who acknowledges it."""
    REPLICATED = "replicated"
    """Every message kept by several servers before it is acknowledged."""

    @property
    def is_durable(self) -> bool:
        """Whether messages are kept on disk."""
        return self in (Service.DURABLE, Service.WORK, Service.REPLICATED)


class Working(Protocol):
    """A worker of any protocol, connected and ready to take jobs."""

    @property
    def socket(self) -> socket.socket:
        """The connection."""
        ...

    @property
    def done(self) -> int:
        """Jobs that it has done, as far as its protocol tells."""
        ...

    def on_readable(self) -> None:
        """Read what is there, and acknowledge each job; raises if the broker does what it must not do."""
        ...

    def finish(self) -> None:
        """Wait until the broker has read all acknowledgements."""
        ...


@dataclass(slots=True, frozen=True)
class Interest:
    """What a subscription wants: in brokers without selectors, everything on the topic."""

    topic: str
    selector: str


class Peer(ABC):
    """One broker of the comparison."""

    name: ClassVar[str]
    package: ClassVar[str]
    """The Debian package that it comes from; empty for Penstock itself."""
    program: ClassVar[str]
    """A file of the package without which it does not run: a path, or a name to be looked up."""
    settle_s: ClassVar[float] = 0.0
    """Seconds after which a new connection carries nothing but deliveries."""
    is_one_per_connection: ClassVar[bool] = False
    """Whether a connection gets a message once, however many of its subscriptions match."""

    @abstractmethod
    def start(self, service: Service, folder: Path) -> AbstractContextManager[Server]:
        """Run the broker on loopback, with its files in this folder, and end it afterwards."""

    @abstractmethod
    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """How to talk to it; messages on the ``kept`` topics must be kept even if nobody subscribes."""

    @abstractmethod
    def ring(self, messages: Sequence[PeerMessage], service: Service) -> Ring:
        """Encode messages."""

    def wanted(self, interest: Interest, service: Service) -> str:
        """The text of a subscription: the topic, unless the peer has selectors."""
        return interest.topic

    def delivery_bytes(self, message: PeerMessage) -> int | None:
        """The size of every delivery of this message; None if it varies, so that frames must be counted."""
        return None

    def open_queue(self, port: int, topic: str) -> None:
        """Make a queue that keeps what is published on a topic until workers have done it."""
        raise NotImplementedError(f"{self.name} has no work queues, or none that we measure")

    def worker(self, port: int, name: str, topic: str, prefetch: int) -> Working:
        """Connect a worker to the queue, which has some jobs at a time."""
        raise NotImplementedError(f"{self.name} has no work queues, or none that we measure")

    def missing(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        found = shutil.which(self.program) if "/" not in self.program else Path(self.program).exists()
        return "" if found else f"Debian package {self.package} is not installed"

    def version(self) -> str:
        """The version that is installed; empty for Penstock itself, whose version is the commit."""
        return version_of(self.package)


def install(packages: Sequence[str]) -> str:
    """Install Debian packages; returns why that failed, or an empty text."""
    if os.geteuid() != 0:
        return "only root can install packages"
    apt = shutil.which("apt-get")
    if apt is None:
        return "there is no apt-get"
    command = [apt, "install", "-y", "--no-install-recommends", *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"apt-get failed: {done.stderr.strip().rpartition(chr(10))[2]}"


def version_of(package: str) -> str:
    """The version of an installed Debian package; empty if it is not installed."""
    query = shutil.which("dpkg-query")
    if query is None or not package:
        return ""
    command = [query, "--show", "--showformat=${Version}", package]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
