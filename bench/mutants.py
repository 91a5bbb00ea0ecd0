"""Plants deliberate bugs, one at a time, which must be found: ``python -m bench.mutants [--only NAME] [--seeds N]``.

Each mutant is a small replacement in one file of a copy of the sources; the working tree is never touched. Its campaign
or its tests run against the copy, in a process of their own, until something fails. A mutant that nothing finds is a
hole in the proof: then the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from bench.planted import MUTANTS, Mutant
from penstock.cli.console import FAILURE, console
from penstock.cli.progress import ProgressReporter
from penstock.model.errors import MisuseError
from penstock.sim.delivery import DeliveryCampaign
from penstock.sim.failover_campaign import FailoverCampaign
from penstock.sim.migration_campaign import MigrationCampaign
from penstock.sim.sharing_campaign import SharingCampaign

__all__ = ["main", "mutate"]

_SOURCES: Final = Path(__file__).resolve().parent.parent / "src"
_SEEDS: Final = 200
_CAMPAIGNS: Final[dict[str, type[DeliveryCampaign | SharingCampaign]]] = {
    "delivery": DeliveryCampaign,
    "failover": FailoverCampaign,
    "migration": MigrationCampaign,
    "sharing": SharingCampaign,
}


class _Found(NamedTuple):
    """What found a mutant, and how; both empty if nothing did."""

    finder: str
    failure: str


def main(arguments: list[str] | None = None) -> int:
    """Hunt all mutants; return 1 if one survives."""
    chosen = _parser().parse_args(arguments)
    if chosen.hunt:
        return _hunt_here(chosen.hunt, chosen.first, chosen.seeds)
    mutants = [each for each in MUTANTS if not chosen.only or each.name in chosen.only]
    found: list[tuple[str, ...]] = []
    survivors = 0
    with ProgressReporter() as reporter, ThreadPoolExecutor(chosen.processes) as pool:
        reporter.stage(f"{len(mutants)} mutants, at most {chosen.seeds} seeds each", total=len(mutants))
        for mutant, (finder, failure) in zip(
            mutants, pool.map(lambda each: _hunt(each, chosen.seeds), mutants), strict=True
        ):
            reporter.advance()
            console.note(f"{mutant.name}: {f'{failure}, {finder}' if failure else 'SURVIVED'}")
            survivors += not failure
            found.append((mutant.name, mutant.what, finder, failure or "survived"))
    columns = {"mutant": "left", "bug": "left", "found by": "left", "as": "left"}
    console.table(f"{len(mutants)} mutants, {survivors} survived", columns, iter(found))
    return FAILURE if survivors else 0


def mutate(mutant: Mutant, sources: Path) -> None:
    """Put the bug into a copy of the sources."""
    file = sources / "penstock" / mutant.file
    text = file.read_text(encoding="utf-8")
    if (count := text.count(mutant.old)) != 1:
        raise MisuseError(f"mutant {mutant.name} fits {count} places in {mutant.file}, not one: {mutant.old!r}")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def _hunt(mutant: Mutant, seeds: int) -> _Found:
    """Return what finds a mutant, and how."""
    with tempfile.TemporaryDirectory(prefix="penstock-mutant-") as folder:
        sources = Path(folder) / "src"
        shutil.copytree(_SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
        mutate(mutant, sources)
        if mutant.tests:
            return _failing_test(sources, mutant.tests)
        first = 0
        while first < seeds:
            seed, failure = _first_failure(sources, mutant.campaign, first, seeds)
            # A seed that fails without the bug as well says nothing about it.
            if not failure or not _first_failure(_SOURCES, mutant.campaign, seed, seed + 1)[1]:
                return _Found(f"{mutant.campaign} seed {seed}", failure)
            first = seed + 1
        return _Found("", "")


def _failing_test(sources: Path, tests: tuple[str, ...]) -> _Found:
    """The first test that fails against some sources, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--no-header", "-rf", *tests]
    environment = _environment(sources)
    done = subprocess.run(command, cwd=_SOURCES.parent, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise MisuseError(f"tests could not be run: {(done.stdout + done.stderr)[-2_000:]}")
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    if not failed:
        return _Found("", "")
    return _Found(failed[0].removeprefix("FAILED ").partition(" - ")[0], "failed test")


def _first_failure(sources: Path, campaign: str, first: int, end: int) -> tuple[int, str]:
    """The first seed from ``first`` to before ``end`` that fails against some sources, in a process of its own."""
    command = [sys.executable, "-m", "bench.mutants", "--hunt", campaign, "--first", str(first), "--seeds", str(end)]
    environment = _environment(sources)
    done = subprocess.run(command, cwd=_SOURCES.parent, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MisuseError(f"a hunt failed: {done.stderr[-2_000:]}")
    seed, failure, imported = json.loads(done.stdout)
    assert imported.startswith(str(sources)), f"the hunt looked at {imported}, not at {sources}"
    return seed, failure


def _environment(sources: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}


def _hunt_here(campaign: str, first: int, end: int) -> int:
    """Run seeds against the package imported here until one fails; used in the process of a mutant."""
    import penstock

    failure = None
    for seed in range(first, end):
        failure = _CAMPAIGNS[campaign](seed).run().failure
        if failure is not None:
            break
    console.line(json.dumps([seed, failure or "", str(penstock.__file__)]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description="Deliberate bugs for the campaign.")
    names = [each.name for each in MUTANTS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="this one; repeatable")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, default=_SEEDS, help=f"seeds to try at most ({_SEEDS})")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes to use (all cores)")
    parser.add_argument("--hunt", default="", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
