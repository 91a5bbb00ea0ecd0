"""Measures work queues: jobs are published, and then several workers take and acknowledge them.

All jobs are durable before the first worker comes, so that publishing and working are measured apart. Each worker has
up to 100 jobs at a time, and acknowledges each of them by itself, those that arrive together in one write. How a worker
knows that a job is done is up to the protocol: a broker of Penstock answers when that is durable, and only then it
counts; acknowledgements of the others have no answer, and count when they are sent.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.live_driver import DriverError, Sending
from bench.live_load import Ring
from bench.peers.message import peer_messages
from bench.peers.peer import Peer, Service, Working
from bench.peers.server import Server, as_driver
from bench.peers.workloads import QUOTES_TOPIC, quotes
from penstock.lab.frame.measuring import collector_at_rest

__all__ = ["PREFETCH", "WORKERS", "WORK_PEERS", "measure_work", "work_title"]

WORK_PEERS: Final = ("Penstock", "Penstock, nothing recorded", "RabbitMQ", "NATS")
WORKERS: Final = 8
PREFETCH: Final = 100
_BATCH: Final = 64
_TIME_S_MAX: Final = 120.0
_POLL_S: Final = 0.01
_AGAIN_MAX: Final = WORKERS * PREFETCH
"""How many jobs may come again: at most those that workers had when the warm-up ended."""


def work_title(jobs: int) -> str:
    """The title of a row."""
    return f"{jobs:,} jobs, {WORKERS} workers"


def measure_work(peer: Peer, jobs: int, *, seed: int) -> dict[str, float]:
    """The figures of one run, with a broker of its own; a tenth of the jobs is done before, to warm it up."""
    messages = peer_messages(quotes(seed), topic=QUOTES_TOPIC)
    ring = peer.ring(messages, Service.WORK)
    with (
        TemporaryDirectory(prefix="penstock-peer-", ignore_cleanup_errors=True) as folder,
        peer.start(Service.WORK, Path(folder)) as server,
        as_driver(),
        collector_at_rest(),
    ):
        peer.open_queue(server.port, QUOTES_TOPIC)
        publisher = peer.dialect(Service.WORK, kept=[QUOTES_TOPIC]).publisher(server.port, "p0")
        with closing(publisher.socket):
            warm = max(_BATCH, jobs // 10)
            _publish(publisher, ring, warm)
            _work(peer, server, warm)
            published = _timed(server, jobs, lambda: _publish(publisher, ring, jobs))
            worked = _work(peer, server, jobs)
    return {
        "jobs_per_s": worked["per_s"],
        "cpu_us": worked["cpu_us"],
        "busy": worked["busy"],
        "publish_per_s": published["per_s"],
        "publish_cpu_us": published["cpu_us"],
    }


def _publish(publisher: Sending, ring: Ring, jobs: int) -> None:
    """Publish jobs as fast as the broker acknowledges, and wait for the last acknowledgement."""
    until = publisher.sent + jobs
    end_s = time.perf_counter() + _TIME_S_MAX
    has_asked = False
    with select.epoll() as epoll:
        epoll.register(publisher.socket.fileno(), select.EPOLLIN)
        while publisher.acknowledged < until:
            is_free = publisher.push()
            count = min(_BATCH, until - publisher.sent)
            if is_free and count and publisher.credit >= ring.body_bytes * count:
                place = publisher.sent % (len(ring) - _BATCH)
                publisher.send(ring, place, count)
            elif is_free and not count and not has_asked:
                publisher.ask()
                has_asked = True
            is_waiting = not count or publisher.credit < ring.body_bytes * count
            for _ in epoll.poll(_POLL_S if is_waiting else 0.0):
                publisher.on_readable()
            if time.perf_counter() > end_s:
                raise DriverError(f"{until - publisher.acknowledged:,} jobs were not acknowledged to the publisher")


def _work(peer: Peer, server: Server, jobs: int) -> dict[str, float]:
    """Let workers do all jobs; the clock starts when the first one asks for some."""
    with ExitStack() as stack:
        workers: list[Working] = []

        def work() -> None:
            for number in range(WORKERS):
                worker = peer.worker(server.port, f"w{number}", QUOTES_TOPIC, PREFETCH)
                stack.enter_context(closing(worker.socket))
                workers.append(worker)
            _serve(workers, jobs)
            for worker in workers:
                worker.finish()

        return _timed(server, jobs, work)


def _serve(workers: Sequence[Working], jobs: int) -> None:
    end_s = time.perf_counter() + _TIME_S_MAX
    with select.epoll() as epoll:
        by_file = {worker.socket.fileno(): worker for worker in workers}
        for file in by_file:
            epoll.register(file, select.EPOLLIN)
        while (done := sum(worker.done for worker in workers)) < jobs:
            for file, _ in epoll.poll(1.0):
                by_file[file].on_readable()
            if time.perf_counter() > end_s:
                raise DriverError(f"{done:,} jobs of {jobs:,} were done")
    if done > jobs + _AGAIN_MAX:
        raise DriverError(f"{done:,} jobs were done, although there were {jobs:,}")


def _timed(server: Server, jobs: int, do: Callable[[], None]) -> dict[str, float]:
    cpu_s, began_s = server.cpu_s(), time.perf_counter()
    do()
    taken_s, cpu_s = time.perf_counter() - began_s, server.cpu_s() - cpu_s
    return {"per_s": jobs / taken_s, "cpu_us": cpu_s / jobs * 1e6, "busy": cpu_s / taken_s}
