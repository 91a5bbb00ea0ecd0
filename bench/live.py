"""Measures one live broker under load over loopback.

The broker is a real process on a processor of its own; publishers and subscribers are raw sockets in this one.
Throughput is measured at the highest rate the broker sustains, from the first message to the last delivery; latency at
half that rate, with messages that fall due in the same millisecond sent together, as clients do. Every delivery is
counted, and a run with one too few or too many is invalid. On a shared machine, "busy" is how much of a processor the
broker was given, and "whole core" how many messages per second it would have carried with all of it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from bench.live_driver import Driver
from bench.live_load import Expected, Load, expected_of
from bench.report import Report
from penstock.cli.console import shown_number
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.frame.measuring import collector_at_rest
from penstock.model.reporting import Reporter
from penstock.model.values import AttributeValue
from penstock.sim.workloads import QuoteWorkload, TopicWorkload

__all__ = ["BrokerProcess", "Measured", "Scenario", "allow_many_files", "apart_from", "measure", "run", "scenarios"]

_RING: Final = 2_048
_BATCH: Final = 64
_LINGER_S: Final = 0.001
_TOPIC_RATE: Final = 5_000.0
_PLAN: Final = OverlayPlan(
    {"b1": ("b1.a",)}, defaults={"heartbeat_ms": 60_000, "silent_ms": 600_000}, service="best-effort"
)
"""Without heartbeats, which would disturb the measurement."""
_Messages = Sequence[Mapping[str, AttributeValue]]


@dataclass(slots=True, frozen=True)
class Scenario:
    """Who publishes what, and who subscribes to what."""

    name: str
    key: str
    """Prefix of the names of its figures."""
    messages: _Messages
    selectors: Sequence[Sequence[str]]
    """The subscriptions of each connection."""
    publishers: int = 1
    rate: float | None = None
    """Messages per second; None for as many as the broker accepts."""
    pause_s: float = _LINGER_S
    """With a rate, messages that fall due within this many seconds are sent together."""
    is_tracked: bool = True
    """Whether the broker records where messages go, as it does by default."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """Targets of the design, by the name of the figure."""


@dataclass(slots=True, frozen=True)
class Measured:
    """The result of a scenario."""

    messages_per_s: float
    deliveries_per_s: float
    """Subscriptions served: a client with ten that match a message gets it once, with ten numbers."""
    frames_per_s: float
    cpu_us: float
    """Processor time of the broker, per message."""
    busy: float
    """The share of its processor that the broker used: if well below 1, something else was the limit."""
    p50_ms: float | None = None
    p99_ms: float | None = None


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure all scenarios, each with a broker of its own."""
    allow_many_files()
    report = Report(
        "one live broker, 100-byte payloads, 7 attributes: publishers → subscribers, selectors / connections (targets)",
        ("scenario", "messages/s", "deliveries/s", "CPU µs/message", "busy %", "whole core/s", "p50 ms", "p99 ms"),
    )
    listed = list(scenarios(seed, quick=quick))
    for scenario in listed:
        reporter.stage(f"live: {scenario.name}")
        measured = measure(scenario, seconds=1.0 if quick else 5.0)
        report.rows.append(_row(scenario, measured))
        report.figures.update(_figures(scenario, measured))
    yield report


def scenarios(seed: int, *, quick: bool) -> Iterator[Scenario]:
    """All scenarios, from few subscribers to many."""
    workload = QuoteWorkload(Random(seed))
    quotes = [_seven(quote) for quote in workload.sample(_RING)]
    for count in (1, 10, 100):
        targets = {"deliveries_per_s": 500_000.0 if count == 1 else 3_000_000.0}
        tracked = Scenario(f"1 → {count}", f"fan_out_{count}", quotes[:1] * _RING, [["TRUE"]] * count)
        yield tracked
        yield replace(
            tracked,
            name=f"{tracked.name}, untracked",
            key=f"{tracked.key}_untracked",
            is_tracked=False,
            targets=targets,
        )
    wanted = {100: 0.0, 1_000: 13_000.0, 10_000: 2_000.0}
    for count in (100, 1_000) if quick else (100, 1_000, 10_000):
        targets = {"messages_per_s": wanted[count]} if wanted[count] else {}
        texts = list(workload.subscriptions(count))
        name, key = f"{count:,} selectors / 10", f"selectors_{count}_over_10"
        yield Scenario(name, key, quotes, _dealt(texts, 10), targets=targets)
    alone = [[text] for text in workload.subscriptions(1_000)]
    targets = {"messages_per_s": 1_600.0}
    yield Scenario("1,000 selectors / 1,000", "selectors_1000_over_1000", quotes, alone, targets=targets)
    count = 1_000 if quick else 10_000
    texts = list(workload.subscriptions(count))
    others = [{**quote, "class": "FUND"} for quote in quotes]
    targets = {"messages_per_s": 50_000.0}
    yield Scenario(f"{count:,}, no match", f"no_match_{count}", others, _dealt(texts, 10), targets=targets)
    yield from _topics(seed)


def measure(scenario: Scenario, *, seconds: float, plan: OverlayPlan = _PLAN) -> Measured:
    """Run one scenario against a broker of its own."""
    load = Load(scenario.messages)
    expected = expected_of(load, scenario.selectors)
    if not scenario.is_tracked:
        plan = replace(plan, tracking="null")
    with DemoOverlay(plan) as overlay, apart_from(overlay.pid("b1")):
        broker = BrokerProcess(overlay.pid("b1"))
        with Driver(overlay.port("b1"), selectors=scenario.selectors, publishers=scenario.publishers) as driver:
            driver.warm_up(load, expected, batch=_BATCH if scenario.publishers == 1 else 1)
            with collector_at_rest():
                if scenario.rate is not None:
                    return _at_a_rate(scenario, scenario.rate, driver, load, expected, broker, seconds)
                return _at_full_speed(driver, load, expected, broker, seconds)


class BrokerProcess:
    """The broker's process, and the processor time it takes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def cpu_s(self) -> float:
        """Processor time that it has used so far."""
        # The name of the command, in parentheses, may contain spaces.
        fields = Path(f"/proc/{self._pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _at_full_speed(driver: Driver, load: Load, expected: Expected, broker: BrokerProcess, seconds: float) -> Measured:
    meter = _Meter(driver, expected, broker)
    taken_s = driver.blast(load, expected, seconds=seconds, batch=_BATCH)
    measured = meter.read(taken_s)
    latencies_ns = driver.note_latencies()
    driver.pace(load, expected, seconds=seconds / 2, rate=measured.messages_per_s / 2, pause_s=_LINGER_S)
    return _with_latencies(measured, latencies_ns)


def _at_a_rate(
    scenario: Scenario,
    rate: float,
    driver: Driver,
    load: Load,
    expected: Expected,
    broker: BrokerProcess,
    seconds: float,
) -> Measured:
    latencies_ns = driver.note_latencies()
    meter = _Meter(driver, expected, broker)
    taken_s = driver.pace(load, expected, seconds=seconds, rate=rate, pause_s=scenario.pause_s)
    return _with_latencies(meter.read(taken_s), latencies_ns)


class _Meter:
    """Measures what a driver and a broker did since the meter was made."""

    def __init__(self, driver: Driver, expected: Expected, broker: BrokerProcess) -> None:
        self._driver, self._broker = driver, broker
        self._sent, self._frames = driver.sent, driver.expected_frames
        self._matches_per_frame = float(expected.matches.sum()) / max(1.0, float(expected.frames.sum()))
        self._cpu_s = broker.cpu_s()

    def read(self, taken_s: float) -> Measured:
        sent, frames = self._driver.sent - self._sent, self._driver.expected_frames - self._frames
        cpu_s = self._broker.cpu_s() - self._cpu_s
        deliveries = frames * self._matches_per_frame
        return Measured(
            sent / taken_s, deliveries / taken_s, frames / taken_s, cpu_us=cpu_s / sent * 1e6, busy=cpu_s / taken_s
        )


def _with_latencies(measured: Measured, latencies_ns: list[int]) -> Measured:
    if not latencies_ns:
        return measured
    p50, p99 = np.percentile(np.array(latencies_ns, dtype=np.float64) / 1e6, (50, 99))
    return replace(measured, p50_ms=float(p50), p99_ms=float(p99))


def _topics(seed: int) -> Iterator[Scenario]:
    """Publishers that send in step with a millisecond timer, as load drivers do, and publishers that do not."""
    workload = TopicWorkload(Random(seed), rate=_TOPIC_RATE)
    more: dict[str, AttributeValue] = {"class": "SENSOR", "site": "north", "unit": "bar", "value": 1.5, "valid": True}
    messages = [each.attributes | more for each in workload.publications(10 * workload.publishers)]
    selectors = [[text] for text in workload.subscriptions()]
    targets = {"messages_per_s": 0.99 * _TOPIC_RATE, "cpu_us": 40.0}
    for name, key, pause_s in (("500 topics, 1 ms", "topics", _LINGER_S), ("500 topics, evenly", "topics_evenly", 0.0)):
        yield Scenario(name, key, messages, selectors, workload.publishers, _TOPIC_RATE, pause_s, targets=targets)


def _seven(quote: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {name: value for name, value in quote.items() if name != "date"}


def _dealt(texts: Sequence[str], hands: int) -> list[list[str]]:
    return [list(texts[hand::hands]) for hand in range(hands)]


@contextmanager
def apart_from(pid: int) -> Iterator[None]:
    """Give the broker a processor of its own, and us the others, if there are at least two."""
    ours = os.sched_getaffinity(0)
    if len(ours) > 1:
        first, *others = sorted(ours)
        os.sched_setaffinity(pid, {first})
        os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


def allow_many_files() -> None:
    """Raise the limit on open files, as far as the system lets us: every connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16_384)), hard))


def _row(scenario: Scenario, measured: Measured) -> tuple[float | str | None, ...]:
    def beside(figure: str) -> float | str:
        value, target = getattr(measured, figure), scenario.targets.get(figure)
        return value if target is None else f"{shown_number(value)} ({shown_number(target)})"

    return (
        scenario.name,
        *map(beside, ("messages_per_s", "deliveries_per_s", "cpu_us")),
        100 * measured.busy,
        1e6 / measured.cpu_us,
        measured.p50_ms,
        measured.p99_ms,
    )


def _figures(scenario: Scenario, measured: Measured) -> dict[str, float]:
    return {f"{scenario.key}_{name}": value for name, value in asdict(measured).items() if value is not None}
