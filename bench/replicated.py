"""Measures publishes that several servers keep: Penstock on a synchronous pair of PostgreSQL servers, beside peers.

The peers are RabbitMQ with a quorum queue on three nodes, and NATS JetStream with three replicas, which does not sync
before it acknowledges. All run on this machine, their disks included, and share all its processors with the driver:
what is measured is the work that replication costs, not the network between machines. The driver is the same for all,
with the same messages and a window of 2 MiB. Processor time is that of all servers of a system together.

In each round every system is started once, the systems in turn, so that they see the same machine in the same minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from bench.live_driver import Driver, DriverError, Waits
from bench.live_load import Load, Ring, expected_of
from bench.machine import load_before
from bench.peers.message import peer_messages
from bench.peers.nats_cluster import NatsCluster
from bench.peers.output import cells_of, verdict_table
from bench.peers.peer import Peer, Service
from bench.peers.penstock_homes import ElsewherePenstock, HomePenstock
from bench.peers.rabbitmq_cluster import RabbitMqCluster
from bench.peers.rounds import Outcome, Row, rows_of
from bench.peers.server import Server
from bench.peers.targets import Figure, Target
from bench.peers.workloads import QUOTES_TOPIC, quotes
from bench.report import Report
from penstock.lab.frame.measuring import collector_at_rest
from penstock.model.errors import PenstockError
from penstock.model.reporting import Reporter

__all__ = ["PEERS", "Length", "measure", "run", "targets"]

PEERS: Final[tuple[Peer, ...]] = (HomePenstock(), ElsewherePenstock(), RabbitMqCluster(), NatsCluster())
_OURS: Final = HomePenstock.name
_RABBITMQ: Final = RabbitMqCluster.name
_GROUP: Final = "replicated"
_ONE_BY_ONE: Final = "one message at a time"
_PIPELINED: Final = "pipelined"
_KEYS: Final = {
    _ONE_BY_ONE: "window_1",
    _PIPELINED: "pipelined",
    **dict(zip((peer.name for peer in PEERS), ("penstock", "penstock_elsewhere", "rabbitmq", "nats"), strict=True)),
}
"""How the figures for programs are named."""
_COLUMNS: Final = {
    "messages_per_s": "messages/s",
    "cpu_us": "CPU µs/message",
    "p50_ms": "ack p50 ms",
    "p99_ms": "ack p99 ms",
}
_BATCH: Final = 64
_TARGET_PER_S: Final = 50_000.0
_ROUNDS: Final = 5


@dataclass(slots=True, frozen=True)
class Length:
    """How long each part of a run takes."""

    warm_up_s: float
    measured_s: float


_FULL: Final = Length(warm_up_s=3.0, measured_s=5.0)
_QUICK: Final = Length(warm_up_s=0.3, measured_s=1.0)


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False, peers: Sequence[Peer] = PEERS) -> Iterator[Report]:
    """Measure all systems that are installed, in several rounds; a system that is missing is named."""
    load_before()
    present: list[Peer] = []
    for peer in peers:
        if reason := peer.missing():
            reporter.note(f"skipped: {peer.name}: {reason}")
        else:
            present.append(peer)
            reporter.note(f"{peer.name}: {peer.version()}")
    length, rounds = (_QUICK, 1) if quick else (_FULL, _ROUNDS)
    outcomes: list[Outcome] = []
    for number in range(rounds):
        for peer in present:
            reporter.stage(f"replicated: round {number + 1} of {rounds}: {peer.name}")
            outcomes += _outcomes(reporter, peer, length, seed)
    rows = rows_of(outcomes)
    yield _table(rows)
    yield verdict_table(rows, targets())


def measure(peer: Peer, length: Length, *, seed: int) -> dict[str, dict[str, float]]:
    """The figures of one start of a system, by the way of publishing."""
    load = Load(quotes(seed))
    ring = peer.ring(peer_messages(load.messages, topic=QUOTES_TOPIC), Service.REPLICATED)
    dialect = peer.dialect(Service.REPLICATED, kept=[QUOTES_TOPIC])
    with (
        TemporaryDirectory(prefix="penstock-peer-", ignore_cleanup_errors=True) as folder,
        peer.start(Service.REPLICATED, Path(folder)) as server,
        Driver(server.port, selectors=[], dialect=dialect) as driver,
    ):
        # Pings that a server sends to a new connection must not meet a batch that is half sent.
        time.sleep(peer.settle_s)
        driver.warm_up(ring, expected_of(load, []), batch=_BATCH)
        driver.pour(ring, seconds=length.warm_up_s, batch=_BATCH)
        with collector_at_rest():
            return {way: _measured(driver, server, ring, way, length.measured_s) for way in (_ONE_BY_ONE, _PIPELINED)}


def targets() -> list[Target]:
    """What we want of the row where publishers are at the home."""
    ours, theirs = (Figure(_GROUP, _PIPELINED, name, "messages_per_s") for name in (_OURS, _RABBITMQ))
    return [
        Target("replicated, pipelined: messages/s", ours, _TARGET_PER_S),
        Target("replicated, pipelined: messages/s beside RabbitMQ", ours, 1.0, theirs),
    ]


def _outcomes(reporter: Reporter, peer: Peer, length: Length, seed: int) -> Iterator[Outcome]:
    try:
        for way, figures in measure(peer, length, seed=seed).items():
            yield Outcome(_GROUP, way, peer.name, figures)
    except (DriverError, OSError, PenstockError) as error:
        # A system that fails ends its own run, and no other.
        reporter.note(f"invalid: {peer.name}: {error}")
        for way in (_ONE_BY_ONE, _PIPELINED):
            yield Outcome(_GROUP, way, peer.name, {}, str(error))


def _measured(driver: Driver, server: Server, ring: Ring, way: str, seconds: float) -> dict[str, float]:
    sent, cpu_s, started_s = driver.sent, server.cpu_s(), time.perf_counter()
    if way == _ONE_BY_ONE:
        waits_ms = driver.one_by_one(ring, seconds=seconds)
    else:
        waits = Waits()
        driver.pour(ring, seconds=seconds, batch=_BATCH, waits=waits)
        waits_ms = waits.times_ms
    taken_s = time.perf_counter() - started_s
    used_s, count = server.cpu_s() - cpu_s, driver.sent - sent
    p50, p99 = np.percentile(np.array(waits_ms), (50, 99))
    return {
        "messages_per_s": count / taken_s,
        "cpu_us": used_s / count * 1e6,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
    }


def _table(rows: Sequence[Row]) -> Report:
    """All rows by the way of publishing, with the figures for programs."""
    title = "acknowledged publishes that several servers keep, one publisher: medians, and the range of all rounds"
    report = Report(title, ("way", "system", *_COLUMNS.values()))
    for row in sorted(rows, key=lambda each: each.workload):
        report.rows.append((row.workload, row.contender, *cells_of(row, list(_COLUMNS))))
        key = f"{_KEYS[row.workload]}_{_KEYS[row.contender]}"
        report.figures |= {f"{key}_{name}": spread.median for name, spread in row.figures.items()}
    return report
