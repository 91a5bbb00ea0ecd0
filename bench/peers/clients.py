"""Measures client libraries: a Python program publishes messages and reads them back, beside a broker of its own.

All programs run on the processors that the broker does not have, and on the event loop of the standard library, except
that the blocking client has a loop of its own. A program that does not read every message never ends, and is invalid
when its time is up.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.live_driver import DriverError
from bench.peers.peer import Peer, Service
from bench.peers.server import as_driver

__all__ = ["LIBRARIES", "Library", "measure_library"]

_TIME_S_MAX: Final = 300.0
_QUOTED_CHARS: Final = 1_000


@dataclass(slots=True, frozen=True)
class Library:
    """A client library, and the broker that its program needs."""

    name: str
    distribution: str
    """The name under which it is installed."""
    program: str
    peer: str
    service: Service = Service.BEST_EFFORT

    @property
    def version(self) -> str:
        """The installed version; empty if there is none."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return ""

    def missing(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        return "" if self.version else f"Python package {self.distribution} is not installed"


LIBRARIES: Final = (
    Library("penstock, best effort", "penstock", "penstock_program", "Penstock"),
    Library("penstock, guaranteed", "penstock", "penstock_program", "Penstock", Service.DURABLE),
    Library("penstock blocking, best effort", "penstock", "penstock_sync_program", "Penstock"),
    Library("penstock blocking, guaranteed", "penstock", "penstock_sync_program", "Penstock", Service.DURABLE),
    Library("redis-py", "redis", "redis_program", "Redis"),
    Library("nats-py", "nats-py", "nats_program", "NATS"),
)


def measure_library(library: Library, peer: Peer, count: int) -> dict[str, float]:
    """The figures of one run of a program."""
    with (
        TemporaryDirectory(prefix="penstock-peer-", ignore_cleanup_errors=True) as folder,
        peer.start(library.service, Path(folder)) as server,
        as_driver(),
    ):
        command = [sys.executable, "-m", f"bench.peers.programs.{library.program}", str(server.port), str(count)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_TIME_S_MAX, check=False
            )
        except subprocess.TimeoutExpired:
            raise DriverError(f"not all of {count:,} messages were read within {_TIME_S_MAX:.0f} s") from None
    if done.returncode != 0:
        raise DriverError(f"the program of {library.name} failed: {done.stderr[-_QUOTED_CHARS:].strip()}")
    return msgspec.json.decode(done.stdout, type=dict[str, float])
