"""``penstock demo``: messages flow through real broker processes, and every single one is accounted for."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.live import Live
from rich.table import Table

from penstock.cli.console import FAILURE, console
from penstock.cli.demo_run import DemoSettings, Tally, assigned, demo_selectors, play
from penstock.cli.demo_verdict import Verdict, judge, latency_of
from penstock.lab.demo_overlay import DemoOverlay
from penstock.live.loop import run
from penstock.sim.workloads import QuoteWorkload

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = """
Publishers are at pb1, subscribers at sb1 and sb2, ib1 is in between: four processes on loopback. Ends with 0 only if
every subscriber got exactly the messages that its selector fits, each once, in order per publisher.

Examples:

- `penstock demo`
- `penstock demo --seconds 5 --rate 2000 --subscribers 50`
- `penstock demo --seconds 3 --json | jq .latency`
"""

_SHOW_S: Final = 0.25
_LINE_S: Final = 1.0
_DAYS: Final = 250


def demo(
    *,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to publish.")] = 20.0,
    rate: Annotated[float, typer.Option(min=1.0, help="Messages per second to publish.")] = 500.0,
    subscribers: Annotated[int, typer.Option(min=1, max=1_000, help="How many subscribe.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same quotes and selectors.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")] = False,
) -> None:
    """Start four brokers, publish quotes, subscribe by content, and check what was delivered."""
    settings = DemoSettings(seconds, rate, subscribers, seed)
    workload = QuoteWorkload(Random(seed), days=_DAYS)
    tally = Tally(assigned(demo_selectors(workload, subscribers)))
    console.note("starting brokers pb1, ib1, sb1 and sb2")
    with _term_is_interrupt(), DemoOverlay() as overlay:
        run(_shown(overlay, settings, workload, tally))
    console.note(f"asking every selector about every message: {len(tally.sent):,} × {subscribers:,}")
    verdicts = [judge(each.selector, tally.sent, each.ids, damaged=each.damaged) for each in tally.subscribers]
    if as_json:
        console.line(msgspec.json.format(msgspec.json.encode(_outcome(settings, tally, verdicts)), indent=2).decode())
    else:
        _print(tally, verdicts)
    wrong = sum(not each.is_right for each in verdicts)
    if wrong:
        console.fail(f"{wrong} of {len(verdicts)} subscribers did not get exactly what they asked for", FAILURE)


@contextmanager
def _term_is_interrupt() -> Iterator[None]:
    """Within it SIGTERM does what Ctrl-C does, so that no broker is left behind."""
    former = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


async def _shown(overlay: DemoOverlay, settings: DemoSettings, workload: QuoteWorkload, tally: Tally) -> None:
    """Play the demo while somebody looks on."""
    showing = asyncio.create_task(_show_live(tally) if console.errors.is_terminal else _show_lines(tally))
    try:
        await play(overlay, settings, workload, tally)
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


class _Rates:
    """Counts per second since they were looked at last."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._last_s = time.monotonic()

    def of(self, counts: dict[str, int]) -> dict[str, float]:
        now_s = time.monotonic()
        seconds = max(now_s - self._last_s, 1e-9)
        rates = {name: (count - self._last.get(name, 0)) / seconds for name, count in counts.items()}
        self._last, self._last_s = counts, now_s
        return rates


async def _show_live(tally: Tally) -> None:
    rates = _Rates()
    with Live(console=console.errors, auto_refresh=False, transient=True) as live:
        while True:
            await asyncio.sleep(_SHOW_S)
            live.update(_table(tally, rates.of(_counts(tally))), refresh=True)


async def _show_lines(tally: Tally) -> None:
    rates = _Rates()
    while True:
        await asyncio.sleep(_LINE_S)
        now = rates.of(_counts(tally))
        sent = f"sent {len(tally.sent):,} ({now['sent']:,.0f}/s)"
        console.note(f"{sent}, delivered {tally.delivered:,} ({now['delivered']:,.0f}/s)")


def _counts(tally: Tally) -> dict[str, int]:
    counts = {"sent": len(tally.sent), "delivered": tally.delivered}
    for name, figures in tally.brokers.items():
        counts |= {f"{name} {what}": figures[what] for what in ("published", "forwarded", "delivered")}
    return counts


def _table(tally: Tally, rates: dict[str, float]) -> Table:
    table = Table(title="messages on their way", title_justify="left")
    for heading in ("who", "does", "so far", "per second"):
        table.add_column(heading, justify="left" if heading in {"who", "does"} else "right")
    for name, count in _counts(tally).items():
        who, _, what = name.rpartition(" ")
        if count or not who:
            who = who or ("publishers" if name == "sent" else "subscribers")
            table.add_row(who, "receive" if name == "delivered" else what, f"{count:,}", f"{rates[name]:,.0f}")
    return table


def _print(tally: Tally, verdicts: list[Verdict]) -> None:
    columns = {
        "#": "right",
        "at": "left",
        "selector": "left",
        "matched": "right",
        "delivered": "right",
        "verdict": "left",
    }
    console.table("what subscribers got", columns, _rows(tally, verdicts))
    all_ns = [each for subscriber in tally.subscribers for each in subscriber.latencies_ns]
    latency = latency_of(all_ns)
    console.line(
        f"sent {len(tally.sent):,} ({len(tally.sent) / max(tally.publishing_s, 1e-9):,.0f}/s),"
        f" matched {sum(each.matched for each in verdicts):,}, delivered {tally.delivered:,}"
    )
    if latency is not None:
        console.line(
            f"latency, publisher to subscriber over three brokers: p50 {latency.p50_ms:.1f} ms,"
            f" p90 {latency.p90_ms:.1f} ms, p99 {latency.p99_ms:.1f} ms, max {latency.max_ms:.1f} ms"
        )
    if all(each.is_right for each in verdicts):
        console.line("every subscriber got exactly what it asked for")


def _rows(tally: Tally, verdicts: list[Verdict]) -> Iterator[tuple[str, ...]]:
    for number, (subscriber, verdict) in enumerate(zip(tally.subscribers, verdicts, strict=True), start=1):
        counts = f"{verdict.matched:,}", f"{verdict.delivered:,}"
        yield str(number), subscriber.broker, subscriber.selector, *counts, verdict.word


def _outcome(settings: DemoSettings, tally: Tally, verdicts: list[Verdict]) -> dict[str, Any]:
    all_ns = [each for subscriber in tally.subscribers for each in subscriber.latencies_ns]
    return {
        "settings": settings,
        "exact": all(each.is_right for each in verdicts),
        "sent": len(tally.sent),
        "matched": sum(each.matched for each in verdicts),
        "delivered": tally.delivered,
        "publishing_s": round(tally.publishing_s, 3),
        "latency": latency_of(all_ns),
        "subscribers": [
            {
                "broker": subscriber.broker,
                "selector": subscriber.selector,
                "verdict": verdict,
                "latency": latency_of(subscriber.latencies_ns),
            }
            for subscriber, verdict in zip(tally.subscribers, verdicts, strict=True)
        ],
        "brokers": tally.brokers,
    }
