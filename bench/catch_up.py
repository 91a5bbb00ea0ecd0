"""Measures durable subscribers of a live broker: catching up from the log, idle ones, and a start with a large log.

One subscriber, and then ten, return a million messages behind, each with a selector that one message in ten passes,
while another one is served live at a steady rate: how fast they catch up, and how that affects the one served live. The
broker is a real process on a processor of its own.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from bench import live
from bench.live_driver import Driver, DriverError, Receiver
from bench.live_load import Load, expected_of
from bench.report import Report
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.live.store import Append, LogStore
from penstock.model.reporting import Reporter
from penstock.model.tick import Tick, tick_at
from penstock.model.values import AttributeValue
from penstock.sim.workloads import QuoteWorkload

__all__ = ["run"]

_PLAN: Final = OverlayPlan({"b1": ("b1.a",)}, defaults={"heartbeat_ms": 60_000, "silent_ms": 600_000})
_BATCH: Final = 64
_LIVE_RATE: Final = 1_000.0
_UNREAD_RATE: Final = 5_000.0
_RATE_TARGET: Final = 200_000.0
_LIVE_P99_TARGET_MS: Final = 10.0
_IDLE_TARGET_BYTES: Final = 2_048.0
_START_TARGET_S: Final = 5.0


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure catching up, idle subscriptions, and a large log."""
    yield _catching_up(reporter, seed, behind=100_000 if quick else 1_000_000)
    yield _beside_one_that_does_not_read(reporter, seed)
    yield _idle(reporter, count=1_000 if quick else 10_000)
    yield _starting(reporter, log_bytes=200 << 20 if quick else 5 << 30)


# --- catching up


def _catching_up(reporter: Reporter, seed: int, *, behind: int) -> Report:
    report = Report(
        f"durable subscribers {behind:,} messages behind, each wants one in ten, "
        f"beside live traffic of {_LIVE_RATE:,.0f} messages/s (targets)",
        ("who catches up", "messages/s", "live/s", "live p50 ms", "live p99 ms", "live max ms"),
    )
    load = Load(_tenths(seed))
    expected = expected_of(load, [["TRUE"]])
    with DemoOverlay(_PLAN) as overlay, live.apart_from(overlay.pid("b1")):
        port = overlay.port("b1")
        with Driver(port, selectors=[], publishers=1) as filling:
            reporter.stage(f"catch-up: publishing {behind:,} messages")
            while filling.sent < behind:
                filling.pour(load, seconds=0.5, batch=_BATCH)
            published = filling.sent
        reporter.stage("catch-up: one, without live traffic")
        idle = _Followers(port, 1, name="idle", published=published)
        idle.wait()
        report.rows.append(("one, no live traffic", idle.per_s, None, None, None, None))
        report.figures["catch_up_idle_per_s"] = idle.per_s
        with Driver(port, selectors=[["TRUE"]], publishers=1) as driver:
            reporter.stage("catch-up: live alone")
            alone = driver.note_latencies()
            driver.pace(load, expected, seconds=3.0, rate=_LIVE_RATE, pause_s=0.001)
            _add_live(report, "nobody", "alone", None, _LIVE_RATE, alone)
            for count, name in ((1, "one"), (10, "ten")):
                reporter.stage(f"catch-up: live beside {name}")
                followers = _Followers(port, count, name=name, published=published + driver.sent)
                beside = driver.note_latencies()
                live_per_s = driver.pace_beside(load, expected, followers.step, rate=_LIVE_RATE)
                followers.close()
                _add_live(report, name, f"beside_{name}", followers.per_s, live_per_s, beside)
    report.figures["catch_up_per_s"] = report.figures["catch_up_beside_one_per_s"]
    report.figures["live_rate_beside"] = report.figures["live_beside_one_per_s"] / _LIVE_RATE
    return report


def _add_live(
    report: Report, who: str, key: str, caught_up_per_s: float | None, live_per_s: float, latencies_ns: list[int]
) -> None:
    """Add the latencies of live traffic, and how fast others caught up beside it."""
    p50, p99, largest = np.percentile(np.array(latencies_ns, dtype=np.float64) / 1e6, (50, 99, 100))
    rate = f"{caught_up_per_s:,.0f} ({_RATE_TARGET:,.0f})" if caught_up_per_s is not None else None
    latency = f"{p99:.1f} ({_LIVE_P99_TARGET_MS:.0f})"
    report.rows.append((who, rate, live_per_s, float(p50), latency, float(largest)))
    report.figures |= {f"live_{key}_per_s": live_per_s, f"live_{key}_p99_ms": float(p99)}
    if caught_up_per_s is not None:
        report.figures[f"catch_up_{key}_per_s"] = caught_up_per_s


class _Followers:
    """Durable subscribers that begin with the oldest message in the log, each with a connection of its own."""

    def __init__(self, port: int, count: int, *, name: str, published: int) -> None:
        # Not all of it: what is published meanwhile must not count as caught up.
        self._read = published * 99 // 100
        self._began_s = time.perf_counter()
        self._receivers: list[Receiver] = []
        for place in range(count):
            options = {"durable": f"{name}-{place}", "otherwise": 0}
            self._receivers.append(Receiver(port, f"{name}-{place}", [f"tenth = {place}"], options=options))
        self._left = dict.fromkeys(range(count), self._read // 10)
        self._buffer = bytearray(4 << 20)
        self._view = memoryview(self._buffer)
        self._taken_s = 0.0

    @property
    def per_s(self) -> float:
        """Messages of the log per second, until the last of them had read what it wants of them."""
        return self._read / self._taken_s

    def step(self) -> bool:
        """Read what has arrived; return whether that is everything."""
        for place, receiver in enumerate(self._receivers):
            with suppress(BlockingIOError):
                received = receiver.scan(self._buffer, self._view, None)
                if place in self._left:
                    self._left[place] -= received
                    if self._left[place] <= 0:
                        del self._left[place]
        if not self._left and not self._taken_s:
            self._taken_s = time.perf_counter() - self._began_s
        return bool(self._taken_s)

    def wait(self) -> None:
        """Read everything, and disconnect."""
        while not self.step():
            time.sleep(0.0005)
        self.close()

    def close(self) -> None:
        """Disconnect."""
        for receiver in self._receivers:
            receiver.socket.close()


# --- a subscriber that does not read


def _beside_one_that_does_not_read(reporter: Reporter, seed: int) -> Report:
    """How a subscriber that never reads affects another one, until it is disconnected."""
    report = Report(
        f"beside a durable subscriber that never reads, {_UNREAD_RATE:,.0f} messages/s", ("live", "p50 ms", "p99 ms")
    )
    load = Load(_tenths(seed))
    expected = expected_of(load, [["TRUE"]])
    plan = replace(_PLAN, defaults={**_PLAN.defaults, "client_outbox_bytes": 4 << 20})
    with (
        DemoOverlay(plan) as overlay,
        live.apart_from(overlay.pid("b1")),
        Driver(overlay.port("b1"), selectors=[["TRUE"]], publishers=1) as driver,
    ):
        reporter.stage("catch-up: live alone")
        alone = driver.note_latencies()
        driver.pace(load, expected, seconds=3.0, rate=_UNREAD_RATE, pause_s=0.001)
        reporter.stage("catch-up: live beside one that does not read")
        beside = driver.note_latencies()
        stuck = Receiver(overlay.port("b1"), "stuck", ["TRUE"], options={"durable": "stuck"})
        began_s = time.perf_counter()
        driver.pace_beside(load, expected, lambda: "code=slow" in overlay.log("b1"), rate=_UNREAD_RATE)
        taken_s = time.perf_counter() - began_s
        stuck.socket.close()
    for name, latencies_ns in (("alone", alone), (f"beside it, for {taken_s:.1f} s until it had to go", beside)):
        p50, p99 = np.percentile(np.array(latencies_ns, dtype=np.float64) / 1e6, (50, 99))
        report.rows.append((name, float(p50), float(p99)))
    report.figures |= {
        "unread_alone_p99_ms": float(np.percentile(alone, 99)) / 1e6,
        "unread_beside_p99_ms": float(np.percentile(beside, 99)) / 1e6,
    }
    return report


def _tenths(seed: int) -> list[Mapping[str, AttributeValue]]:
    quotes = QuoteWorkload(Random(seed)).sample(2_000)
    chosen: list[Mapping[str, AttributeValue]] = []
    for place, quote in enumerate(quotes[:1_920]):
        chosen.append({**{name: value for name, value in quote.items() if name != "date"}, "tenth": place % 10})
    return chosen


# --- idle subscriptions


def _idle(reporter: Reporter, *, count: int) -> Report:
    report = Report(
        f"{count:,} idle durable subscriptions of one broker (target)", ("", "bytes of memory for each subscription")
    )
    reporter.stage(f"catch-up: {count:,} durable subscriptions")
    with DemoOverlay(_PLAN) as overlay:
        before = _resident_bytes(overlay.pid("b1"))
        client = Receiver(overlay.port("b1"), "many", [])
        client.socket.settimeout(120)
        client.subscribe_durably(count)
        connected = (_resident_bytes(overlay.pid("b1")) - before) / count
        client.socket.close()
        # Python keeps memory it once had: only a broker that starts with them shows how much they need.
        overlay.kill("b1", signal.SIGTERM)
        overlay.start("b1")
        absent = (_resident_bytes(overlay.pid("b1")) - before) / count
    report.rows.append(("connected, with a selector of their own", connected))
    report.rows.append(("their clients are away", f"{absent:,.0f} ({_IDLE_TARGET_BYTES:,.0f})"))
    report.figures |= {"idle_connected_bytes": connected, "idle_absent_bytes": absent}
    return report


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise DriverError(f"process {pid} does not say how much memory it has")


# --- a large log


def _starting(reporter: Reporter, *, log_bytes: int) -> Report:
    report = Report(f"opening a store with a log of {log_bytes >> 20:,} MiB (target)", ("", "seconds"))
    body = bytes(215)
    with TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder)
        reporter.stage(f"catch-up: writing a log of {log_bytes >> 20:,} MiB", total=log_bytes)
        store = LogStore.open(path, overlay="demo", broker="b1")
        # Only its size matters here, not that it survives a power cut while it is written.
        store._database.execute("PRAGMA synchronous=OFF")  # noqa: SLF001 - nobody else may
        first = int(tick_at(1_700_000_000_000))
        for start in range(first, first + log_bytes // len(body), _BATCH):
            store.commit([Append("b1.a", [(Tick(start + place), body) for place in range(_BATCH)])])
            reporter.advance(_BATCH * len(body))
        store.close()
        reporter.stage("catch-up: opening it")
        started_s = time.perf_counter()
        opened = LogStore.open(path, overlay="demo", broker="b1")
        opened.recovered()
        taken_s = time.perf_counter() - started_s
        opened.close()
    report.rows.append(("until the broker can serve", f"{taken_s:.2f} ({_START_TARGET_S:.0f})"))
    report.figures["start_s"] = taken_s
    return report
