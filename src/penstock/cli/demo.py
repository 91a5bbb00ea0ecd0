"""``penstock demo``: plays the story of all mechanisms on real processes, and judges every single delivery."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.console import FAILURE, console
from penstock.cli.story import FAST, FULL, Narrator, Outcome, story_page, tell
from penstock.cli.story.crowd import Crowd
from penstock.cli.story.market import Market
from penstock.cli.story.plan import can_ship, story_plan
from penstock.cli.story.spark import missing_for_spark
from penstock.lab.links.ending import ending_in_order
from penstock.lab.links.overlays import RelayedOverlay
from penstock.model.errors import MisuseError
from penstock.system.loop import run

__all__ = ["EXAMPLES", "demo"]

EXAMPLES = """
Seven brokers on loopback, 200 subscribers: balancing, a narrow link, a cut link, a limit, the token, a trace, Spark.
Ends with 0 only if every subscriber got exactly the messages that its selector fits, each once, in order per
publisher, and Spark's audit agrees. A chapter that is "not as expected", as on a busy machine, is no failure.

Examples:

- `penstock demo`
- `penstock demo --fast --report demo.html`
- `penstock demo --keep`
- `penstock demo --fast --no-spark --json | jq .lost`
"""

_REPORT: Final = Path("penstock-demo.html")


def demo(
    *,
    fast: Annotated[bool, typer.Option("--fast", help="As short as it can be.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the brokers running at the end, until Ctrl-C.")] = False,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Whether Spark has its chapter.")] = True,
    subscribers: Annotated[int, typer.Option(min=4, max=1_000, help="How many subscribe.")] = FULL.subscribers,
    rate: Annotated[float, typer.Option(min=8.0, max=2_000.0, help="Messages per second to publish.")] = FULL.rate,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same quotes and selectors.")] = 0,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the page about this run goes.")] = _REPORT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")] = False,
) -> None:
    """Play the story of all mechanisms on real processes, and judge every delivery."""
    pace = FAST if fast else FULL
    durable = min(pace.durable, subscribers)
    settings = replace(pace, subscribers=subscribers, durable=durable, rate=rate, seed=seed, with_spark=spark)
    _check_report(report)
    problem = missing_for_spark() if spark else ""
    if problem:
        console.note(f"the chapter on Spark will be left out: {problem}")
    market = Market(seed, rate=rate, subscribers=subscribers)
    plan = story_plan(settings, market.delivered_bytes_s(), ship=can_ship())
    console.note(f"starting {len(plan.pubends)} brokers: {', '.join(plan.pubends)}")
    with ending_in_order(), RelayedOverlay(plan) as overlay:
        with Narrator(console.errors) as narrator:
            outcome = run(tell(overlay, settings, Crowd(market, durable=durable), narrator))
        _conclude(outcome, report, as_json=as_json)
        if keep:
            _keep(overlay)
    if not outcome.is_good:
        console.fail("something was lost, repeated, damaged or out of order, or the audit found a fault", FAILURE)


def _check_report(report: Path) -> None:
    """Reject a bad path now rather than after two minutes."""
    if not report.parent.is_dir():
        raise MisuseError(f"there is no folder {report.parent} for the report")
    if report.is_dir():
        raise MisuseError(f"{report} is a folder, and cannot be the report")


def _conclude(outcome: Outcome, report: Path, *, as_json: bool) -> None:
    try:
        report.write_text(story_page(outcome), encoding="utf-8")
    except OSError as error:
        console.note(f"cannot write the report to {report}: {error.strerror}")
    if as_json:
        console.json(outcome.as_builtins())
    else:
        for number, told in enumerate(outcome.chapters, start=1):
            console.line(f"{number}. {told.title}: {told.word}")
        console.line(outcome.verdict_line())
        if outcome.is_good:
            console.line("every subscriber got exactly what it asked for")
    console.note(f"the report: {report.resolve()}")


def _keep(overlay: RelayedOverlay) -> None:
    """Suggest commands to try on the brokers, and wait for Ctrl-C."""
    brokers = overlay.brokers
    try:
        console.note(
            "the brokers run until you press Ctrl-C here; in another terminal try:\n"
            f"  penstock status {brokers.file}\n"
            f"  penstock top {brokers.file}\n"
            f"  penstock token status {brokers.file}\n"
            f"  penstock subscribe {brokers.url('sb4')} TRUE\n"
            f"  penstock publish {brokers.url('pb1')} --generate 1000 --rate 50\n"
            f"  penstock limit set {brokers.file} none --set limit_packets_s=10"
        )
        run(_watched(overlay))
    except KeyboardInterrupt:
        console.note("ending the brokers")


async def _watched(overlay: RelayedOverlay) -> None:
    """Wait until interrupted; raises if a broker ends by itself."""
    while True:
        overlay.check()
        await asyncio.sleep(1.0)
