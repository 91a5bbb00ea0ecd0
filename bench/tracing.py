"""Measures how long a trace takes over four live broker processes: for a connected client, and for the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from time import perf_counter

from bench.report import Report
from penstock.client.sync import SyncClient, connect_sync
from penstock.lab.demo_overlay import DEMO_PLAN, DemoOverlay
from penstock.model.message_id import MessageId
from penstock.model.reporting import Reporter

__all__ = ["run"]

_COMMAND = (sys.executable, "-c", "from penstock.cli import main; main()", "trace")
_MESSAGES = 20_000
_PAUSE_TRACES = 40
"""Traces per second: a broker refuses to begin more than fifty."""


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:  # noqa: ARG001 - no chance here
    """Send messages from one end of the demo's overlay to two others, and trace some of them."""
    messages, traces = (500, 20) if quick else (_MESSAGES, 400)
    reporter.stage(f"{messages:,} messages through four brokers")
    with (
        DemoOverlay(DEMO_PLAN) as overlay,
        connect_sync(overlay.url("sb1"), name="alice") as alice,
        connect_sync(overlay.url("sb2"), name="bob") as bob,
        connect_sync(overlay.url("pb1"), name="feed") as feed,
    ):
        subscriptions = [each.subscribe("TRUE") for each in (alice, bob)]
        for each in subscriptions:
            each.ready()
        ids = [feed.publish({"number": number}, pubend="pb1.a") for number in range(messages)]
        for each in subscriptions:
            for _ in range(messages):
                each.get()
        reporter.stage(f"{traces} traces", total=traces)
        took_ms = [_traced(bob, message_id, reporter) for message_id in ids[:: messages // traces][:traces]]
        shell_ms = [_traced_by_command(overlay, ids[place]) for place in (0, messages // 2, messages - 1)]
    took_ms.sort()
    report = Report(
        f"a trace of one of {messages:,} messages, 4 broker processes: ms",
        ("median", "99 %", "longest", "`penstock trace`, whole process"),
    )
    p99 = took_ms[len(took_ms) * 99 // 100]
    report.rows.append((median(took_ms), p99, took_ms[-1], median(shell_ms)))
    report.figures = {"trace_ms": median(took_ms), "trace_p99_ms": p99, "command_ms": median(shell_ms)}
    yield report


def _traced(client: SyncClient, message_id: MessageId, reporter: Reporter) -> float:
    started = perf_counter()
    trace = client.trace(message_id)
    took_ms = (perf_counter() - started) * 1e3
    # Brokers are listed in the order in which they answered, so sort them.
    assert sorted(trace.receivers) == [("sb1", "alice"), ("sb2", "bob")], trace
    assert trace.is_complete, trace
    reporter.advance()
    # Keep to the allowed pace.
    while perf_counter() - started < 1 / _PAUSE_TRACES:
        client.status()
    return took_ms


def _traced_by_command(overlay: DemoOverlay, message_id: MessageId) -> float:
    started = perf_counter()
    subprocess.run([*_COMMAND, str(message_id), "--broker", overlay.url("sb2")], check=True, stdout=subprocess.DEVNULL)
    return (perf_counter() - started) * 1e3
