"""Measures what it costs to publish to a pubend of another broker: directly, and through one broker in between.

Publishers name their pubend and have an identity, as the client library does. All messages are guaranteed: each is
synced at the pubend's broker before it is acknowledged. Processor time is that of all brokers together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from bench import live
from bench.live_driver import Driver, NamingDialect
from bench.live_load import Load
from bench.report import Report
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.frame.measuring import collector_at_rest
from penstock.model.reporting import Reporter

__all__ = ["run"]

_BATCH: Final = 64
_PUBEND: Final = "home.a"
_PLAN: Final = OverlayPlan(
    {"home": (_PUBEND,), "door": ()}, [("door", "home")], {"heartbeat_ms": 60_000, "silent_ms": 600_000}
)
_RATIO_TARGET: Final = 1.6
_TARGET_PER_S: Final = 100_000.0


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure both ways, pipelined and one message at a time, in turn."""
    seconds = 1.0 if quick else 5.0
    load = Load(next(iter(live.scenarios(seed, quick=True))).messages)
    yield _both(reporter, load, seconds, publishers=1, batch=_BATCH)
    yield _both(reporter, load, seconds, publishers=50, batch=_BATCH)
    yield _both(reporter, load, seconds, publishers=1, batch=1)


def _both(reporter: Reporter, load: Load, seconds: float, *, publishers: int, batch: int) -> Report:
    how = "pipelined" if batch > 1 else "one message at a time"
    report = Report(
        f"publishers: {publishers}, {how}, {load.body_bytes} bytes each (targets)",
        ("way", "acknowledged/s", "CPU \u00b5s/message of all brokers", "beside the direct way", "ack p50 ms"),
    )
    direct_us = 0.0
    for way in ("home", "door"):
        reporter.stage(f"carrying: {publishers} {how}, at the {way}")
        rate, cpu_us, waits_ms = _measured(load, way, publishers, batch, seconds)
        direct_us = direct_us or cpu_us
        ratio = cpu_us / direct_us
        is_judged = way == "door" and batch > 1
        shown = f"{rate:,.0f} ({_TARGET_PER_S:,.0f})" if is_judged else f"{rate:,.0f}"
        beside = f"{ratio:.2f} ({_RATIO_TARGET})" if is_judged else f"{ratio:.2f}"
        p50 = float(np.percentile(waits_ms, 50)) if waits_ms else None
        report.rows.append(
            (f"at the {way} of the pubend" if way == "home" else "one broker away", shown, cpu_us, beside, p50)
        )
        key = f"{publishers}_{how.replace(' ', '_')}_{way}"
        report.figures |= {f"{key}_per_s": rate, f"{key}_cpu_us": cpu_us}
    return report


def _measured(load: Load, way: str, publishers: int, batch: int, seconds: float) -> tuple[float, float, list[float]]:
    """Messages acknowledged per second, processor time per message, and how long single messages waited."""
    with DemoOverlay(_PLAN) as overlay:
        brokers = [live.BrokerProcess(overlay.pid(name)) for name in _PLAN.pubends]
        dialect = NamingDialect(_PUBEND)
        driving = Driver(overlay.port(way), selectors=[], publishers=publishers, dialect=dialect)
        with driving as driver, collector_at_rest():
            before_s = sum(each.cpu_s() for each in brokers)
            started_s = time.perf_counter()
            waits_ms: list[float] = []
            if batch == 1:
                waits_ms = driver.one_by_one(load, seconds=seconds)
            else:
                driver.pour(load, seconds=seconds, batch=batch)
            taken_s = time.perf_counter() - started_s
            used_s = sum(each.cpu_s() for each in brokers) - before_s
    return driver.sent / taken_s, used_s / driver.sent * 1e6, waits_ms
