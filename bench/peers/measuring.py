"""Runs one workload against one peer: start it, warm it up, drive it, and read clocks and counters.

Every delivery is counted. One too few or too many raises ``DriverError``, and the run is invalid.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from bench.live_driver import Driver, DriverError
from bench.live_load import Expected, Ring
from bench.peers.message import peer_messages
from bench.peers.peer import Peer
from bench.peers.server import Server, as_driver
from bench.peers.workloads import QUOTES_TOPIC, Pace, Workload
from penstock.lab.frame.measuring import collector_at_rest

__all__ = ["Length", "measure"]

_BATCH: Final = 64
_PAUSE_S: Final = 0.001
"""At a rate, messages that fall due within a millisecond are sent together, as load drivers do."""


@dataclass(slots=True, frozen=True)
class Length:
    """How long a run takes."""

    warm_up_s: float
    measured_s: float


def measure(peer: Peer, workload: Workload, length: Length) -> dict[str, float]:
    """The figures of one run, with a broker of its own."""
    messages = peer_messages(workload.messages, topic=QUOTES_TOPIC)
    ring = peer.ring(messages, workload.service)
    wanted = [[peer.wanted(each, workload.service) for each in some] for some in workload.interests]
    kept = [] if wanted else [QUOTES_TOPIC]
    dialect = peer.dialect(workload.service, kept=kept)
    with (
        TemporaryDirectory(prefix="penstock-peer-", ignore_cleanup_errors=True) as folder,
        peer.start(workload.service, Path(folder)) as server,
        as_driver(),
        Driver(server.port, selectors=wanted, publishers=workload.publishers, dialect=dialect) as driver,
    ):
        run = _Run(driver, ring, _expected(peer, workload), workload)
        run.warm_up(max(length.warm_up_s, peer.settle_s))
        size = peer.delivery_bytes(messages[0])
        if workload.pace is Pace.FLOOD and workload.is_uniform and size is not None:
            driver.count_bytes(size)
        with collector_at_rest():
            return run.measured(server, length.measured_s)


class _Run:
    """One workload on a driver that is connected."""

    def __init__(self, driver: Driver, ring: Ring, expected: Expected, workload: Workload) -> None:
        self._driver = driver
        self._ring = ring
        self._expected = expected
        self._workload = workload

    def warm_up(self, seconds: float) -> None:
        """Send the ring once, and then as it will be measured for some time."""
        self._driver.warm_up(self._ring, self._expected, batch=_BATCH if self._workload.publishers == 1 else 1)
        self._publish(seconds)

    def measured(self, server: Server, seconds: float) -> dict[str, float]:
        """Publish, and work out the figures."""
        driver = self._driver
        latencies_ns = driver.note_latencies() if self._workload.pace is Pace.RATE else []
        sent, frames = driver.sent, driver.expected_frames
        cpu_s, started_s = server.cpu_s(), time.perf_counter()
        waits_ms = self._publish(seconds)
        taken_s, cpu_s = time.perf_counter() - started_s, server.cpu_s() - cpu_s
        if driver.held < len(driver.receivers):
            raise DriverError(f"the broker closed {len(driver.receivers) - driver.held} connections of subscribers")
        sent, frames = driver.sent - sent, driver.expected_frames - frames
        matches_per_frame = float(self._expected.matches.sum()) / max(1.0, float(self._expected.frames.sum()))
        return {
            "messages_per_s": sent / taken_s,
            "deliveries_per_s": frames * matches_per_frame / taken_s,
            "cpu_us": cpu_s / sent * 1e6,
            "busy": cpu_s / taken_s,
            "held": float(driver.held),
            **_percentiles(waits_ms or [each / 1e6 for each in latencies_ns]),
        }

    def _publish(self, seconds: float) -> list[float]:
        """Publish for some time, and wait for the last delivery; returns the waits for acknowledgements, if any."""
        driver, ring, expected = self._driver, self._ring, self._expected
        match self._workload.pace:
            case Pace.RATE:
                driver.pace(ring, expected, seconds=seconds, rate=self._workload.rate, pause_s=_PAUSE_S)
            case Pace.FLOOD:
                driver.blast(ring, expected, seconds=seconds, batch=_BATCH)
            case Pace.PIPELINED:
                driver.pour(ring, seconds=seconds, batch=_BATCH)
            case Pace.ONE_BY_ONE:
                return driver.one_by_one(ring, seconds=seconds)
        return []


def _expected(peer: Peer, workload: Workload) -> Expected:
    """What the peer should deliver: most send a message to a connection once per subscription that matches."""
    expected = workload.expected
    return expected if peer.is_one_per_connection else Expected(expected.matches, expected.matches)


def _percentiles(times_ms: list[float]) -> Mapping[str, float]:
    if not times_ms:
        return {}
    p50, p99 = np.percentile(np.array(times_ms), (50, 99))
    return {"p50_ms": float(p50), "p99_ms": float(p99)}
