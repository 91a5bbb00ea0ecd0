"""``penstock pipeline profile`` and ``plan``: measure subscriptions by the archive, and plan where to place them.

A plan can be compared with what dynamic balancing achieved in a run of the experiment ``balancing-local``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from penstock.cli.console import console, shown_number
from penstock.cli.pipeline.frame import AsJson, Lake, at_work, on_spark
from penstock.cli.progress import ProgressReporter
from penstock.model.errors import MisuseError
from penstock.pipeline.session import SessionSettings, check_requirements

if TYPE_CHECKING:
    from penstock.pipeline.profile.model import Profile
    from penstock.pipeline.profile.placement import BrokerPlan, Plan

__all__ = ["PLAN_EXAMPLES", "PROFILE_EXAMPLES", "balancing_difference", "plan", "profile"]

PROFILE_EXAMPLES = """
Needs the tables `publications` (`penstock pipeline archive`) and `subscriptions` (shipped by brokers). The profile goes
into the lake's folder `_profile`, from which `penstock pipeline plan` takes it.

Examples:

- `penstock pipeline profile lake`
- `penstock pipeline profile lake --from 2026-11-15T00:00:00Z --to 2026-11-16T00:00:00Z --json`
"""
PLAN_EXAMPLES = """
A capacity is a multiple of the reference machine (`b1=2`), an output bandwidth (`b1=10mbps`), or that with a matching
delay, base + for each subscription (`b1=10mbps:100us+2us`). A file has one line per broker: `b1 = "10mbps:100us+2us"`.

Examples:

- `penstock pipeline plan lake --capacities b1=1,b2=2,b3=4`
- `penstock pipeline plan lake --capacities brokers.toml --compare docs/results/balancing-local.json --json`
"""
_SHOWN: Final = 10
_METRICS: Final = ("max_difference_end_input", "max_difference_end_output", "max_difference_end_delay")


@on_spark("penstock profile")
def profile(
    lake: Lake,
    *,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only messages from then on; all if not given.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only messages before.")] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Also subscriptions that have ended.")] = False,
    samples: Annotated[
        int,
        typer.Option(
            metavar="N", min=64, max=1_000_000, help="How many messages to sample for overlap between subscriptions."
        ),
    ] = 16_384,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the profile goes; by default `LAKE/_profile`.")
    ] = None,
    as_json: AsJson = False,
    session: SessionSettings,
) -> None:
    """Measure what every subscription costs, and what it has in common with others, from all archived messages."""
    check_requirements()
    from penstock.pipeline.lake import check_whole
    from penstock.pipeline.profile.job import run_profile
    from penstock.pipeline.profile.store import default_folder, profile_summary, save_profile
    from penstock.pipeline.time_span import TimeSpan

    span, folder = TimeSpan.parse(start, end), out or default_folder(lake)
    for name in ("publications", "subscriptions"):
        check_whole(lake, name)
    with at_work(session) as (spark, reporter):
        found = run_profile(spark, lake, span, reporter, samples=samples, with_ended=ended)
    save_profile(found, folder)
    if as_json:
        console.json({**profile_summary(found), "folder": str(folder)})
        return
    _show_profile(found)
    console.line(f"profile: {folder}")


def plan(
    lake: Lake,
    *,
    capacities: Annotated[
        list[str],
        typer.Option("--capacities", metavar="FILE|b1=..", help="What brokers can do; may be repeated."),
    ],
    reference: Annotated[
        str, typer.Option(metavar="TEXT", help="The machine that bare numbers are multiples of.")
    ] = "10mbps:100us+1us",
    profile_folder: Annotated[
        Path | None, typer.Option("--profile", metavar="DIR", help="Where the profile is; by default `LAKE/_profile`.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A result of `balancing-local`, to compare with.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the plan goes; by default `LAKE/_plan`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Place the subscriptions of a profile on brokers of given capacities, and predict their loads."""
    from penstock.pipeline.profile.capacities import parse_capacities, parse_capacity
    from penstock.pipeline.profile.placement import plan_placement, predicted
    from penstock.pipeline.profile.store import default_folder, load_profile

    wanted = parse_capacities(capacities, parse_capacity(reference))
    reached = None if compare is None else balancing_difference(compare)
    found = load_profile(profile_folder or default_folder(lake))
    with ProgressReporter(quiet_unless_terminal=True) as reporter:
        reporter.stage(f"placing {len(found.subscriptions):,} subscriptions on {len(wanted)} brokers", total=100)
        made = plan_placement(found, wanted, advance=reporter.advance)
    here = [each.broker for each in found.subscriptions]
    before = predicted(found, wanted, here) if set(here) & set(wanted) else []
    folder = out or default_folder(lake).with_name("_plan")
    summary = _save_plan(found, made, before, reached, folder)
    if as_json:
        console.json(summary)
        return
    _show_plan(made, before, summary)


def balancing_difference(path: Path) -> float:
    """The largest difference between two brokers in any metric at the end of a ``balancing-local`` run."""
    try:
        result: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict)
    except OSError as error:
        raise MisuseError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise MisuseError(f"{path} is not a result of an experiment: {error}") from None
    metrics = result.get("measured")
    found = [metrics[name] for name in _METRICS if name in metrics] if isinstance(metrics, dict) else []
    if not found:
        raise MisuseError(f"{path} is not a result of balancing-local: it has none of {', '.join(_METRICS)}")
    return float(max(found))


def _save_plan(
    found: Profile, made: Plan, before: Sequence[BrokerPlan], reached: float | None, folder: Path
) -> dict[str, Any]:
    from penstock.pipeline.folders import write_folder
    from penstock.pipeline.profile.placement import max_difference

    summary = {
        "subscriptions": len(made.placed),
        "moved": made.moved,
        "brokers": [asdict(each) for each in made.brokers],
        "now": [asdict(each) for each in before],
        "plan_max_difference": made.max_difference,
        "now_max_difference": max_difference(before) if before else None,
        "balancing_max_difference": reached,
        "overloaded": made.overloaded,
        "folder": str(folder),
    }
    placement: dict[str, list[Any]] = {
        "broker_now": [each.broker for each in found.subscriptions],
        "number": [each.number for each in found.subscriptions],
        "subscriber": [each.subscriber for each in found.subscriptions],
        "selector": [found.selectors[each.selector] for each in found.subscriptions],
        "broker": list(made.placed),
    }
    rows = [asdict(each) for each in made.brokers]
    brokers = {name: [row[name] for row in rows] for name in rows[0]}
    text = msgspec.json.format(msgspec.json.encode(summary), indent=1).decode()
    write_folder(folder, {"placement": placement, "brokers": brokers}, {"plan.json": text})
    return summary


def _show_profile(found: Profile) -> None:
    window = found.window
    console.line(
        f"{window.publications:,} messages in {window.seconds:,.0f} s ({shown_number(window.rate)} per second), "
        f"{len(found.subscriptions):,} subscriptions with {len(found.selectors):,} selectors"
    )
    if found.unrecorded:
        console.note(f"{found.unrecorded:,} subscriptions have no selector on record, and are left out")
    right = dict.fromkeys(("subscriptions", "covering set", "in msg/s", "out msg/s", "out bytes/s"), "right")
    console.table("brokers", {"broker": "left", **right}, _rows([asdict(each) for each in found.brokers]))
    busiest = sorted(range(len(found.selectors)), key=lambda number: (-int(found.bytes[number]), number))[:_SHOWN]
    columns = {"selector": "left", "msg/s": "right", "bytes/s": "right", "most in common with": "left"}
    console.table("busiest selectors", columns, (_busy(found, number) for number in busiest))
    right = dict.fromkeys(("messages", "values", "subscriptions"), "right")
    console.table("attributes", {"name": "left", **right}, _rows([asdict(each) for each in found.attributes[:_SHOWN]]))


def _busy(found: Profile, number: int) -> tuple[str, ...]:
    other, common = next(iter(found.common.get(number, [])), (None, 0))
    shared = "" if other is None else f"{found.selectors[other]} ({common / max(1, found.window.sampled):.1%} of all)"
    rates = shown_number(found.rate(number)), shown_number(found.bytes_rate(number))
    return found.selectors[number], *rates, shared


def _show_plan(made: Plan, before: Sequence[BrokerPlan], summary: dict[str, Any]) -> None:
    names = ("subscriptions", "in msg/s", "out bytes/s", "delay s", "input", "output")
    columns = {"broker": "left", **dict.fromkeys(names, "right")}
    if before:
        console.table("now, as predicted", columns, _rows([asdict(each) for each in before]))
    console.table("plan", columns, _rows([asdict(each) for each in made.brokers]))
    console.line(f"subscriptions to move: {made.moved:,} of {len(made.placed):,}")
    for name in ("plan_max_difference", "now_max_difference", "balancing_max_difference"):
        if summary[name] is not None:
            console.line(f"{name}: {shown_number(summary[name])}")
    for broker in made.overloaded:
        console.note(f"broker {broker} would be overloaded even with this plan: plan with more or stronger brokers")
    console.line(f"plan: {summary['folder']}")


def _rows(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    return (tuple(shown_number(value) for value in row.values()) for row in rows)
