"""Fuzzes for as long as you like: ``python -m bench.soak --seeds N [--first N] [--campaign NAME] [--story]``.

Every seed runs every campaign but ``live``, on all cores. ``live`` plays rounds on real processes, one after the other,
and must be requested: ``--campaign live --seeds N``, or ``--minutes M`` for as many rounds as fit. So must the
campaigns of ``bench.edge_fuzz``, in which each seed throws a great deal at one edge: ``--edges --seeds N``.

A failure prints its campaign, its seed and what was wrong; the campaigns ``delivery`` and ``failover`` also tell its
story. The exit code tells the worst failure:

    0  none
    1  a broken law: lost, duplicated, out of order, not as selected, a wrong answer
    2  a lack of progress: the overlay did not settle after all harm was repaired
    3  a crash: an unexpected exception
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from bench.damage import damage_campaign
from bench.edge_fuzz.campaigns import EDGES, THROWN
from bench.frames import frames_campaign
from bench.fuzzing import CAMPAIGNS as FUZZING
from bench.live_fuzz.campaign import LIVE, LiveOptions, live_campaign
from bench.live_fuzz.plan import KNOWN
from penstock.cli.console import console
from penstock.cli.progress import ProgressReporter
from penstock.lab.frame.measuring import collector_in_leisure
from penstock.sim.balancing_campaign import BalancingCampaign
from penstock.sim.campaign import BrokenLawError, Campaign, NoProgressError
from penstock.sim.congestion_campaign import CongestionCampaign
from penstock.sim.delivery import DeliveryCampaign
from penstock.sim.delivery_run import DeliveryRun, Failure
from penstock.sim.failover_campaign import FAILOVER_PROBES, FailoverCampaign
from penstock.sim.migration_campaign import MigrationCampaign
from penstock.sim.probes import PROBES, missed
from penstock.sim.sharing_campaign import SharingCampaign

__all__ = ["DELIVERY", "EXIT_CODES", "FAILOVER", "main"]

DELIVERY: Final = "delivery"
FAILOVER: Final = "failover"
_TOLD: Final = {DELIVERY: PROBES, FAILOVER: {**PROBES, **FAILOVER_PROBES}}
"""The campaigns that tell a story, each with its probes."""
CAMPAIGNS: Final[dict[str, Callable[[Random], object]]] = {
    **FUZZING,
    "frames": frames_campaign,
    "damage": damage_campaign,
    "overlay": lambda rng: Campaign(rng.getrandbits(32)).run(),
    "congestion": lambda rng: CongestionCampaign(rng.getrandbits(32)).run(),
    "migration": lambda rng: _sound(MigrationCampaign(rng.getrandbits(32))),
    "sharing": lambda rng: _sound(SharingCampaign(rng.getrandbits(32))),
    "balancing": lambda rng: _sound(BalancingCampaign(rng.getrandbits(32))),
    "balancing-heads": lambda rng: _sound(BalancingCampaign(rng.getrandbits(32), with_heads=True)),
}
EXIT_CODES: Final = {Failure.CRASH: 3, Failure.BROKEN_LAW: 1, Failure.NO_PROGRESS: 2}
"""Exit codes by failure, the worst first."""
_FAULTS_MAX: Final = 10
"""Faults after which the soak stops: more would only repeat the story."""
_TOLD_EVERY: Final = 100
"""Seeds between two progress lines, for those who read a file and not a bar."""
_STORY_LINES: Final = 500_000
"""Lines of the trace kept for a requested story."""


@dataclass(slots=True)
class _Outcome:
    """What one seed found, in a form that travels between processes."""

    failures: list[tuple[Failure, str]] = field(default_factory=list)
    """How each failed campaign failed, and what to print about it."""
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """Paths that the campaigns took that tell a story, and their figures."""


def main(arguments: list[str] | None = None) -> int:
    """Run the campaigns; the exit code tells the worst failure."""
    chosen = _parser().parse_args(arguments)
    names = chosen.campaign or (list(EDGES) if chosen.edges else [*CAMPAIGNS, *_TOLD])
    if chosen.story:
        return _tell(FAILOVER if FAILOVER in (chosen.campaign or ()) else DELIVERY, chosen.first)
    failures: list[Failure] = []
    simulated = [name for name in names if name != LIVE]
    if simulated:
        failures += _simulate(simulated, chosen)
    if LIVE in names:
        failures += live_campaign(LiveOptions(chosen.first, chosen.seeds, chosen.minutes, tuple(chosen.without)))
    return next((code for failure, code in EXIT_CODES.items() if failure in failures), 0)


def _simulate(names: list[str], chosen: argparse.Namespace) -> list[Failure]:
    """Run the campaigns that need no processes of their own; return the failures."""
    started_s = time.monotonic()
    failures: list[Failure] = []
    counts: dict[str, Counter[str]] = {name: Counter() for name in names if name in _TOLD}
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    with ProgressReporter() as reporter:
        reporter.stage(f"{chosen.seeds:,} seeds from {chosen.first}: {', '.join(names)}", total=chosen.seeds)
        for seed, outcome in zip(seeds, _outcomes(names, seeds, chosen.processes), strict=False):
            for failure, text in outcome.failures:
                failures.append(failure)
                console.note(text)
            for name, taken in outcome.counts.items():
                counts[name] += taken
            reporter.advance()
            if (seed + 1 - chosen.first) % _TOLD_EVERY == 0:
                console.note(f"{seed + 1 - chosen.first:,} seeds, {len(failures)} faults")
            if len(failures) >= _FAULTS_MAX:
                console.note(f"stopped at seed {seed}, after {len(failures)} faults")
                break
    for name, taken in counts.items():
        _sum_up(name, taken)
    for name in names:
        if name in THROWN:
            console.line(f"{name}: {THROWN[name][0] * chosen.seeds:,} {THROWN[name][1]}")
    console.line(f"{len(failures)} faults, {chosen.seeds:,} seeds, {time.monotonic() - started_s:.1f} s")
    return failures


def _outcomes(names: list[str], seeds: range, processes: int) -> Iterator[_Outcome]:
    """The outcome of each seed, in order."""
    work = partial(_outcome, names)
    if processes == 1 or len(seeds) == 1:
        yield from map(work, seeds)
        return
    # Spawned, not forked: a campaign should not inherit open files and library threads.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(work, seeds)


def _outcome(names: list[str], seed: int) -> _Outcome:
    outcome = _Outcome()
    with collector_in_leisure():
        for name in names:
            if name in _TOLD:
                _add_told(outcome, name, seed)
            else:
                outcome.failures += _failures_of(name, seed)
    return outcome


def _campaign(name: str, seed: int, *, trace_lines: int = 10_000) -> DeliveryCampaign:
    kind = FailoverCampaign if name == FAILOVER else DeliveryCampaign
    return kind(seed, trace_lines=trace_lines)


def _add_told(outcome: _Outcome, name: str, seed: int) -> None:
    run = _campaign(name, seed).run()
    outcome.counts[name] = run.counts + Counter(
        runs=1,
        simulated_ms=run.simulated_ms,
        faults=sum(run.faults.values()),
        acknowledged=run.verdict.acknowledged,
        arrived=run.verdict.delivered,
    )
    if run.failure is not None:
        outcome.failures.append((run.failure, f"FAULT in campaign {name}, {run.story()}\n{_again(name, seed)}"))


def _failures_of(name: str, seed: int) -> list[tuple[Failure, str]]:
    try:
        {**CAMPAIGNS, **EDGES}[name](Random(f"{name}/{seed}"))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        told = [f"FAULT in campaign {name}, seed {seed}: {type(error).__name__}: {error}"]
        told += ["".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip(), _again(name, seed)]
        return [(_kind(error), "\n".join(told))]
    return []


def _sound(campaign: DeliveryCampaign | SharingCampaign) -> None:
    run = campaign.run()
    if run.failure is Failure.NO_PROGRESS:
        raise NoProgressError(run.story())
    if run.failure is not None:
        raise (RuntimeError if run.failure is Failure.CRASH else BrokenLawError)(run.story())


def _kind(error: Exception) -> Failure:
    if isinstance(error, NoProgressError):
        return Failure.NO_PROGRESS
    # Fuzzers state their laws as assertions about what came out.
    return Failure.BROKEN_LAW if isinstance(error, BrokenLawError | AssertionError) else Failure.CRASH


def _tell(name: str, seed: int) -> int:
    run: DeliveryRun = _campaign(name, seed, trace_lines=_STORY_LINES).run()
    console.line(run.story())
    console.line(f"digest {run.digest}")
    return 0 if run.failure is None else EXIT_CODES[run.failure]


def _again(name: str, seed: int) -> str:
    story = " --story" if name in _TOLD else ""
    return f"again: python -m bench.soak --seeds 1 --first {seed} --campaign {name}{story}"


def _sum_up(name: str, counts: Counter[str]) -> None:
    hours = counts["simulated_ms"] / 3_600_000
    console.line(
        f"{name}: {counts['runs']:,} runs, {hours:.1f} simulated hours, {counts['faults']:,} faults injected, "
        f"{counts['acknowledged']:,} messages acknowledged, {counts['arrived']:,} deliveries"
    )
    unreached = missed([counts], _TOLD[name])
    console.line(f"probes that no seed reached: {len(unreached) or 'none'}")
    for line in unreached:
        console.line(f"  {line}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Fuzzes, and harms simulated overlays.")
    names = [*CAMPAIGNS, *_TOLD, *EDGES, LIVE]
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--campaign", action="append", choices=names, help="only this one; may be repeated")
    thrown = ", ".join(f"{count:,} {what}" for count, what in THROWN.values())
    parser.add_argument(
        "--edges", action="store_true", help=f"fuzz everything that takes outside input; per seed: {thrown}"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes to use (all cores)")
    parser.add_argument(
        "--story", action="store_true", help=f"tell the story of the first seed of {DELIVERY} or {FAILOVER}"
    )
    parser.add_argument("--minutes", type=float, help=f"how long {LIVE} plays, instead of a number of seeds")
    known = "; ".join(f"{name}: {what}" for name, what in KNOWN.items())
    parser.add_argument(
        "--without", action="append", choices=list(KNOWN), default=[], help=f"what {LIVE} is not to demand; {known}"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
