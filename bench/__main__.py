"""Runs the benchmarks: ``python -m bench [NAME ...] [--quick] [--seed N] [--json FILE]``.

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
    return parser.parse_args()


def _known(name: str) -> str:
    if name not in BENCHES:
        raise argparse.ArgumentTypeError(f"no benchmark {name!r}; known are {', '.join(BENCHES)}")
    return name


if __name__ == "__main__":
    sys.exit(main())
