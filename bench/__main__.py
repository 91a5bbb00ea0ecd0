"""Runs the benchmarks: ``python -m bench [NAME ...] [--quick] [--seed N] [--json FILE]``.

``durable`` is followed by ``replicated``, which takes minutes and runs the servers of others; ``--alone`` leaves that
out, and ``--install`` installs those servers.

With ``--against COMMIT`` it compares this tree with an older one instead (``bench/against.py``).
``python -m bench hostile`` attacks brokers instead, and has options of its own (``bench/hostile/command.py``).
``python -m bench stomp`` measures STOMP beside ActiveMQ, with the options of ``bench.peers``.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

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


_INTERRUPTED: Final = 130


class _Bench(Protocol):
    def __call__(self, reporter: Reporter, *, seed: int, quick: bool) -> Iterator[Report]: ...


def _replicated(reporter: Reporter, *, seed: int, quick: bool) -> Iterator[Report]:
    # Imported when it runs, so that the other benchmarks also load with an old Penstock that cannot replicate.
    from bench import replicated

    yield from replicated.run(reporter, seed=seed, quick=quick)


BENCHES: dict[str, _Bench] = {
    "matching": matching.run,
    "press": press.run,
    "simulator": simulator.run,
    "storage": storage.run,
    "live": live.run,
    "durable": durable.run,
    "replicated": _replicated,
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
    if sys.argv[1:2] == ["stomp"]:
        return _stomp(sys.argv[2:])
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
    names = _complete(chosen.names or BENCHES, alone=chosen.alone)
    if chosen.install and "replicated" in names:
        _install()
    try:
        figures = {name: _figures(name, seed=chosen.seed, quick=chosen.quick) for name in names}
    except KeyboardInterrupt:
        console.note("interrupted; all brokers have been ended")
        return _INTERRUPTED
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")
    return 0


def _stomp(arguments: list[str]) -> int:
    # Imported when it runs, so that the other benchmarks also load with an old Penstock.
    from bench.peers.__main__ import main as peers

    return peers(arguments, groups=("stomp-selectors", "stomp-topics", "stomp-connections"))


def _figures(name: str, *, seed: int, quick: bool) -> dict[str, float]:
    """Run one benchmark, show its tables, and return its figures."""
    with ProgressReporter() as reporter:
        reports = list(BENCHES[name](reporter, seed=seed, quick=quick))
    for report in reports:
        report.show()
    return {key: value for report in reports for key, value in report.figures.items()}


def _complete(names: Iterable[str], *, alone: bool) -> list[str]:
    """The names with ``replicated`` after ``durable``, or without it."""
    wanted = [name for name in names if name != "replicated" or not alone]
    if "durable" in wanted and "replicated" not in wanted and not alone:
        wanted.insert(wanted.index("durable") + 1, "replicated")
    return wanted


def _install() -> None:
    from bench.peers.peer import install
    from bench.replicated import PEERS

    packages = sorted({peer.package for peer in PEERS if peer.missing()})
    if packages and (reason := install(packages)):
        console.note(f"not installed: {', '.join(packages)}: {reason}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures Penstock, side by side with peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", type=_known, help=f"one of: {', '.join(BENCHES)}; or all")
    parser.add_argument("--seed", type=int, default=0, help="the source of all chance (0)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--alone", action="store_true", help="leave out what runs the servers of others: replicated")
    parser.add_argument("--install", action="store_true", help="install the servers of others, if we are root")
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
