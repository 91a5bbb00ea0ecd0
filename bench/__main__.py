"""Runs the benchmarks: ``python -m bench [NAME ...] [--quick] [--seed N] [--json FILE]``.

With ``--against COMMIT`` it compares this tree with an older one instead (``bench/against.py``).
``python -m bench hostile`` attacks brokers instead, and has options of its own (``bench/hostile/command.py``).
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from bench import (
    carrying,
    catch_up,
    durable,
    live,
    matching,
    plan,
    press,
    routing_histories,
    simulator,
    spark_source,
    storage,
    sweep,
    tracing,
    tracking,
)
from bench.against import DEFAULT_NAMES, run_against
from bench.hostile.command import main as hostile
from bench.report import Report
from penstock.cli.console import console
from penstock.cli.progress import ProgressReporter
from penstock.model.reporting import Reporter

__all__ = ["main"]


class _Bench(Protocol):
    def __call__(self, reporter: Reporter, *, seed: int, quick: bool) -> Iterator[Report]: ...


BENCHES: dict[str, _Bench] = {
    "matching": matching.run,
    "press": press.run,
    "simulator": simulator.run,
    "storage": storage.run,
    "live": live.run,
    "durable": durable.run,
    "carrying": carrying.run,
    "catch-up": catch_up.run,
    "spark-source": spark_source.run,
    "sweep": sweep.run,
    "tracking": tracking.run,
    "routing-histories": routing_histories.run,
    "tracing": tracing.run,
    "plan": plan.run,
}


def main() -> int:
    """Run the named benchmarks, or all."""
    if sys.argv[1:2] == ["hostile"]:
        return hostile(sys.argv[2:])
    chosen = _arguments()
    if chosen.against is not None:
        return run_against(
            chosen.against,
            chosen.names,
            rounds=chosen.rounds,
            seed=chosen.seed,
            quick=chosen.quick,
            json_file=chosen.json,
        )
    console.line(f"Python {platform.python_version()}, {platform.machine()}, seed {chosen.seed}")
    figures: dict[str, dict[str, float]] = {}
    for name in chosen.names or BENCHES:
        figures[name] = {}
        with ProgressReporter() as reporter:
            reports = list(BENCHES[name](reporter, seed=chosen.seed, quick=chosen.quick))
        for report in reports:
            report.show()
            figures[name].update(report.figures)
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures Penstock, side by side with peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", type=_known, help=f"one of: {', '.join(BENCHES)}; or all")
    parser.add_argument("--seed", type=int, default=0, help="the source of all chance (0)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help=f"run this commit and this tree in turn, and print ratios; without names: {' '.join(DEFAULT_NAMES)}",
    )
    parser.add_argument("--rounds", type=_positive, default=5, help="rounds of --against (5)")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _known(name: str) -> str:
    if name not in BENCHES:
        raise argparse.ArgumentTypeError(f"no benchmark {name!r}; known are {', '.join(BENCHES)}")
    return name


if __name__ == "__main__":
    sys.exit(main())
