"""Measures guaranteed delivery of a live broker: acknowledged durable publishes, latencies, and durable topics.

Every acknowledgement comes after the sync of what it acknowledges. For comparison, in the same run: a bare group
commit, which appends the same batches to a plain preallocated file, each with a sync; and the same broker with the
best-effort class. The broker is a real process on a processor of its own, its log on the disk of the temporary folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from bench import live
from bench.live_driver import Driver
from bench.live_load import Load
from bench.report import Report
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.frame.measuring import collector_at_rest
from penstock.model.reporting import Reporter

__all__ = ["run"]

_BATCH: Final = 64
_DURABLE: Final = OverlayPlan({"b1": ("b1.a",)}, defaults={"heartbeat_ms": 60_000, "silent_ms": 600_000})
_BEST_EFFORT: Final = replace(_DURABLE, service="best-effort")
_TARGET_PER_S: Final = 100_000.0
_P99_TARGET_MS: Final = 25.0
_CPU_TARGET_US: Final = 150.0
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure publishes, latencies and topics."""
    seconds = 1.0 if quick else 5.0
    load = Load(next(iter(live.scenarios(seed, quick=True))).messages)
    yield _publishes(reporter, load, seconds)
    yield _latencies(reporter, load, seconds)
    yield _topics(reporter, seed, seconds)


# --- acknowledged publishes


def _publishes(reporter: Reporter, load: Load, seconds: float) -> Report:
    report = Report(
        f"acknowledged durable publishes, {load.body_bytes} bytes each, sync before every acknowledgement (target)",
        ("publishers", "messages/s", "against a bare group commit", "CPU µs/message", "ack p50 ms", "ack p99 ms"),
    )
    reporter.stage("durable: a bare group commit")
    one_by_one, batched = (_bare_commits_per_s(load, batch, seconds / 2) for batch in (1, _BATCH))
    for name, key, publishers, batch, bare in (
        ("1, one message at a time", "window_1", 1, 1, one_by_one),
        ("1, pipelined", "pipelined_1", 1, _BATCH, batched),
        ("50, pipelined", "pipelined_50", 50, _BATCH, batched),
    ):
        reporter.stage(f"durable: publishers {name}")
        rate, cpu_us, waits_ms = _acknowledged(load, publishers, batch, seconds)
        shown = f"{rate:,.0f} ({_TARGET_PER_S:,.0f})" if batch > 1 else f"{rate:,.0f}"
        p50, p99 = (float(each) for each in np.percentile(waits_ms, (50, 99))) if waits_ms else (None, None)
        report.rows.append((name, shown, f"{rate / bare:.2f}", cpu_us, p50, p99))
        report.figures |= {f"{key}_per_s": rate, f"{key}_against_bare": rate / bare, f"{key}_cpu_us": cpu_us}
        if p99 is not None and p50 is not None:
            report.figures |= {f"{key}_ack_p50_ms": p50, f"{key}_ack_p99_ms": p99}
    return report


def _acknowledged(load: Load, publishers: int, batch: int, seconds: float) -> tuple[float, float, list[float]]:
    """Messages acknowledged per second, the broker's processor time per message, and the waits of single messages."""
    with DemoOverlay(_DURABLE) as overlay, live.apart_from(overlay.pid("b1")):
        broker = live.BrokerProcess(overlay.pid("b1"))
        with Driver(overlay.port("b1"), selectors=[], publishers=publishers) as driver, collector_at_rest():
            cpu_s, started_s = broker.cpu_s(), time.perf_counter()
            waits_ms: list[float] = []
            if batch == 1:
                waits_ms = driver.one_by_one(load, seconds=seconds)
            else:
                driver.pour(load, seconds=seconds, batch=batch)
            taken_s = time.perf_counter() - started_s
            return driver.sent / taken_s, (broker.cpu_s() - cpu_s) / driver.sent * 1e6, waits_ms


def _bare_commits_per_s(load: Load, batch: int, seconds: float) -> float:
    """Messages per second made durable by a loop that does nothing but write and sync."""
    content = b"".join(load.body(place % len(load)) for place in range(batch))
    with TemporaryDirectory(prefix="penstock-") as folder:
        file = os.open(Path(folder) / "log", os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(file, 0, 256 << 20)
            _sync(file)
            started_s, written = time.perf_counter(), 0
            while (taken_s := time.perf_counter() - started_s) < seconds:
                os.pwrite(file, content, written % (192 << 20))
                _sync(file)
                written += len(content)
            return written / len(content) * batch / taken_s
        finally:
            os.close(file)


# --- from publisher to subscriber


def _latencies(reporter: Reporter, load: Load, seconds: float) -> Report:
    report = Report(
        "from publisher to subscriber, 1,000 messages/s, one subscriber",
        ("service class", "p50 ms", "p99 ms", "CPU µs/message"),
    )
    for name, plan in (("best effort", _BEST_EFFORT), ("guaranteed", _DURABLE)):
        reporter.stage(f"durable: latency, {name}")
        scenario = live.Scenario(name, name, load.messages, [["TRUE"]], rate=1_000.0)
        measured = live.measure(scenario, seconds=seconds, plan=plan)
        report.rows.append((name, measured.p50_ms, measured.p99_ms, measured.cpu_us))
        key = name.replace(" ", "_")
        report.figures |= {f"{key}_p50_ms": measured.p50_ms or 0.0, f"{key}_p99_ms": measured.p99_ms or 0.0}
    return report


def _topics(reporter: Reporter, seed: int, seconds: float) -> Report:
    report = Report(
        "200 publishers, 500 subscribers, 500 topics, 5,000 messages/s (targets)",
        ("service class", "messages/s", "p50 ms", "p99 ms", "CPU µs/message"),
    )
    scenario = next(each for each in live.scenarios(seed, quick=True) if each.key == "topics_evenly")
    for name, plan in (("best effort", _BEST_EFFORT), ("guaranteed", _DURABLE)):
        reporter.stage(f"durable: topics, {name}")
        measured = live.measure(scenario, seconds=3 * seconds, plan=plan)
        p99, cpu = f"{measured.p99_ms or 0:.1f}", f"{measured.cpu_us:.0f}"
        if plan is _DURABLE:
            p99, cpu = f"{p99} ({_P99_TARGET_MS:.0f})", f"{cpu} ({_CPU_TARGET_US:.0f})"
        report.rows.append((name, measured.messages_per_s, measured.p50_ms, p99, cpu))
        key = f"topics_{name.replace(' ', '_')}"
        report.figures |= {
            f"{key}_per_s": measured.messages_per_s,
            f"{key}_p99_ms": measured.p99_ms or 0.0,
            f"{key}_cpu_us": measured.cpu_us,
        }
    return report
