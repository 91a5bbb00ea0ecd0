"""Records what simulated runs do, to show later that a refactoring changed nothing.

    python -m bench.digests FILE [--seeds 200] [--first 0] [--against OLDER] [--without-experiments]
                                [--processes N]

The file gets an entry for every simulated experiment at its quick size, with the figures it measured, and one for every
seed of the campaigns, with three digests: ``trace`` of everything that happened and when, ``received`` of the sequence
of messages that each subscription received, and ``verdict`` of what the judges counted. With ``--against`` the entries
are compared with those of an older file; those that differ are named, and the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import msgspec

from penstock.cli.console import console
from penstock.cli.progress import ProgressReporter
from penstock.lab import run_experiment
from penstock.lab.frame.measuring import collector_in_leisure
from penstock.lab.report import CHAPTERS
from penstock.model.message_id import MESSAGE_ID_BYTES
from penstock.pipeline.experiments.registry import EXPERIMENTS, find_experiment
from penstock.sim.balancing_campaign import BalancingCampaign
from penstock.sim.campaign import Campaign
from penstock.sim.congestion_campaign import CongestionCampaign
from penstock.sim.delivery import DeliveryCampaign
from penstock.sim.migration_campaign import MigrationCampaign
from penstock.sim.world import World

__all__ = ["main"]

Entry: TypeAlias = Mapping[str, str]
Job: TypeAlias = tuple[str, int | None]
"""A campaign and its seed, or an experiment and None."""


def main(arguments: list[str] | None = None) -> int:
    """Record all runs, and compare them; return 1 if some differ."""
    chosen = _parser().parse_args(arguments)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    jobs: list[Job] = [] if chosen.without_experiments else [(name, None) for name in _experiments()]
    jobs += [(name, seed) for seed in seeds for name in CAMPAIGNS]
    entries: dict[str, Entry] = {}
    # Not a Pool, whose workers may not start processes: some experiments do.
    workers = ProcessPoolExecutor(chosen.processes, mp_context=multiprocessing.get_context("spawn"))
    with ProgressReporter() as reporter, workers:
        reporter.stage(f"{len(jobs):,} simulated runs", total=len(jobs))
        for job, entry in zip(jobs, workers.map(_recorded, jobs), strict=True):
            entries[_key(job)] = entry
            reporter.advance()
    chosen.file.write_bytes(msgspec.json.format(msgspec.json.encode(entries), indent=1) + b"\n")
    console.line(f"{len(entries):,} runs recorded in {chosen.file}")
    return _compare(msgspec.json.decode(chosen.against.read_bytes()), entries) if chosen.against is not None else 0


def _experiments() -> list[str]:
    skipped = {entry.name for chapter in CHAPTERS for entry in chapter.entries if entry.is_live or entry.is_timed}
    return [each.name for each in EXPERIMENTS if each.name not in skipped]


def _recorded(job: Job) -> Entry:
    name, seed = job
    if seed is not None:
        with collector_in_leisure():
            return CAMPAIGNS[name](seed)
    with TemporaryDirectory() as folder:
        result = run_experiment(find_experiment(name), seed=1, quick=True, figures=Path(folder))
    return {figure: repr(value) for figure, value in result.measured.items()}


def _overlay(seed: int) -> Entry:
    campaign = Campaign(seed)
    campaign.run()
    return _seen(campaign.world)


def _congestion(seed: int) -> Entry:
    campaign = CongestionCampaign(seed)
    run = campaign.run()
    return {**_seen(campaign.world), "verdict": repr(run)}


def _deliveries(kind: type[DeliveryCampaign]) -> Callable[[int], Entry]:
    def run(seed: int) -> Entry:
        campaign = kind(seed)
        found = campaign.run()
        verdict = {**asdict(found.verdict), "crash": found.crash, "unconverged": found.unconverged}
        return {**_seen(campaign.world), "verdict": repr(verdict)}

    return run


CAMPAIGNS: Final[dict[str, Callable[[int], Entry]]] = {
    "overlay": _overlay,
    "congestion": _congestion,
    "delivery": _deliveries(DeliveryCampaign),
    "migration": _deliveries(MigrationCampaign),
    "balancing": _deliveries(BalancingCampaign),
}


def _seen(world: World) -> Entry:
    received = blake2b(digest_size=16)
    for name, client in sorted(world.clients.items()):
        # By subscription: how the sequences of different subscriptions interleave is a matter of timing. So are
        # identifiers, which contain the time.
        for each in sorted(client.deliveries, key=lambda delivery: delivery.subscription):
            received.update(f"{name} {each.subscription} {each.pubend} ".encode() + each.body[MESSAGE_ID_BYTES:])
    return {"trace": world.digest(), "received": received.hexdigest()}


def _key(job: Job) -> str:
    name, seed = job
    return name if seed is None else f"{name}/{seed}"


def _compare(before: Mapping[str, Entry], now: Mapping[str, Entry]) -> int:
    """Print the runs that differ; return 1 if any do or are missing."""
    differing = 0
    for key in [key for key in now if key in before]:
        names = [name for name in {**before[key], **now[key]} if before[key].get(name) != now[key].get(name)]
        if names:
            differing += 1
            console.line(f"{key}: {', '.join(names)} differ")
    shared = sum(key in before for key in now)
    console.line(f"{shared - differing:,} of {shared:,} runs are as before, {differing:,} differ")
    return 1 if differing or shared < len(before) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.digests", description="Records what simulated runs do.")
    parser.add_argument("file", type=Path, help="where the digests go")
    parser.add_argument("--seeds", type=int, default=200, help="seeds of every campaign (200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--against", type=Path, metavar="OLDER", help="compare with this file")
    parser.add_argument("--without-experiments", action="store_true", help="campaigns only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes to use (all cores)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
