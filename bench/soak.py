"""Fuzzes for as long as you like: ``python -m bench.soak --seeds N [--first N] [--campaign NAME]``.

Every seed runs every campaign. A failure prints its campaign, its seed and what was wrong; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from random import Random
from typing import Final

from bench.frames import frames_campaign
from bench.fuzzing import CAMPAIGNS as FUZZING
from penstock.cli.console import FAILURE, console
from penstock.cli.progress import ProgressReporter
from penstock.sim.campaign import Campaign

__all__ = ["main"]

CAMPAIGNS: Final[dict[str, Callable[[Random], object]]] = {
    **FUZZING,
    "frames": frames_campaign,
    "overlay": lambda rng: Campaign(rng.getrandbits(32)).run(),
}
_FAULTS_MAX = 10
"""Faults after which it stops: more of them would only repeat the story."""


def main(arguments: list[str] | None = None) -> int:
    """Run the campaigns; 1 if a fault was found."""
    chosen = _parser().parse_args(arguments)
    names = chosen.campaign or list(CAMPAIGNS)
    started_s, faults = time.monotonic(), 0
    with ProgressReporter() as reporter:
        reporter.stage(f"{chosen.seeds:,} seeds from {chosen.first}: {', '.join(names)}", total=chosen.seeds)
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            faults += sum(not _holds(name, seed) for name in names)
            reporter.advance()
            if faults >= _FAULTS_MAX:
                console.note(f"stopped at seed {seed}, after {faults} faults")
                break
    console.line(f"{faults} faults, {chosen.seeds:,} seeds, {time.monotonic() - started_s:.1f} s")
    return FAILURE if faults else 0


def _holds(name: str, seed: int) -> bool:
    try:
        CAMPAIGNS[name](Random(f"{name}/{seed}"))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        console.note(f"FAULT in campaign {name}, seed {seed}: {type(error).__name__}: {error}")
        console.note("".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip())
        console.note(f"again: python -m bench.soak --seeds 1 --first {seed} --campaign {name}")
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Fuzzes selectors and matching.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--campaign", action="append", choices=list(CAMPAIGNS), help="only this one; may be repeated")
    return parser


if __name__ == "__main__":
    sys.exit(main())
