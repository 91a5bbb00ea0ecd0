"""Runs the comparison: ``python -m bench.peers [GROUP ...] [--rounds N] [--quick] [--install] [--markdown FILE] ...``.

Within a round every workload runs on all its peers in turn, so that they see the same machine in the same minutes. A
peer that is not installed is skipped and named. ``--install`` installs the Debian packages that are missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.live import allow_many_files
from bench.live_driver import DriverError
from bench.machine import load_before
from bench.peers.activemq import ActiveMq
from bench.peers.clients import LIBRARIES, measure_library
from bench.peers.measuring import Length, measure
from bench.peers.mosquitto import Mosquitto
from bench.peers.nats_server import NatsServer
from bench.peers.output import Comparison, draw_chart, here_and_now, json_text, markdown, tables, verdict_table
from bench.peers.peer import Peer, install
from bench.peers.penstock import PenstockPeer, UntrackedPenstock
from bench.peers.penstock_stomp import StompPenstock
from bench.peers.postgres import Postgres
from bench.peers.rabbitmq import RabbitMq
from bench.peers.redis_server import RedisServer
from bench.peers.rounds import Outcome, rows_of
from bench.peers.targets import targets_of
from bench.peers.working import WORK_PEERS, measure_work, work_title
from bench.peers.workloads import GROUPS, workloads
from penstock.cli.console import FAILURE, console

__all__ = ["main"]

PEERS: Final[dict[str, Peer]] = {
    each.name: each
    for each in (
        PenstockPeer(),
        UntrackedPenstock(),
        StompPenstock(),
        Mosquitto(),
        RedisServer(),
        NatsServer(),
        ActiveMq(),
        RabbitMq(),
        Postgres(),
    )
}
_FULL: Final = Length(warm_up_s=3.0, measured_s=5.0)
_QUICK: Final = Length(warm_up_s=0.3, measured_s=1.0)
_CLIENT_MESSAGES: Final = 100_000
_CLIENT_MESSAGES_QUICK: Final = 5_000
_JOBS: Final = 50_000
_JOBS_QUICK: Final = 2_000
_INTERRUPTED: Final = 130


@dataclass(slots=True, frozen=True)
class _Case:
    """One workload on one contender."""

    group: str
    workload: str
    contender: str
    peer: str
    run: Callable[[], dict[str, float]]


def main(arguments: Sequence[str] | None = None, *, groups: Sequence[str] = ()) -> int:
    """Measure, show and write everything; 1 if a run was invalid. With groups, the arguments need not name any."""
    chosen = _arguments(arguments, groups)
    allow_many_files()
    load = load_before()
    wanted = [case for group in chosen.groups for case in _cases(group, seed=chosen.seed, quick=chosen.quick)]
    peers = {case.peer: PEERS[case.peer] for case in wanted}
    if chosen.install:
        _install_missing(peers.values())
    skipped = {name: reason for name, peer in peers.items() if (reason := peer.missing())}
    skipped |= {each.name: reason for each in LIBRARIES if "clients" in chosen.groups and (reason := each.missing())}
    for name, reason in skipped.items():
        console.note(f"skipped: {name}: {reason}")
    cases = [case for case in wanted if case.peer not in skipped and case.contender not in skipped]
    rounds = chosen.rounds or (1 if chosen.quick else 5)
    try:
        outcomes = [_outcome(case, number, rounds) for number in range(rounds) for case in cases]
    except KeyboardInterrupt:
        console.note("interrupted; all brokers have been ended")
        return _INTERRUPTED
    rows = rows_of(outcomes)
    versions = _versions(cases)
    comparison = Comparison(
        *here_and_now(), load, rounds, chosen.quick, versions, skipped, rows, groups=tuple(chosen.groups)
    )
    return _tell(comparison, chosen)


def _cases(group: str, *, seed: int, quick: bool) -> Iterator[_Case]:
    length = _QUICK if quick else _FULL
    for workload in workloads(group, seed=seed, quick=quick):
        for name in workload.peers:
            yield _Case(group, workload.title, name, name, partial(measure, PEERS[name], workload, length))
    if group == "work":
        jobs = _JOBS_QUICK if quick else _JOBS
        for name in WORK_PEERS:
            yield _Case(group, work_title(jobs), name, name, partial(measure_work, PEERS[name], jobs, seed=seed))
    if group == "clients":
        count = _CLIENT_MESSAGES_QUICK if quick else _CLIENT_MESSAGES
        for library in LIBRARIES:
            run = partial(measure_library, library, PEERS[library.peer], count)
            yield _Case(group, f"{count:,} messages", library.name, library.peer, run)


def _versions(cases: Sequence[_Case]) -> dict[str, str]:
    """The versions of everything measured; that of Penstock is the commit."""
    peers = dict.fromkeys(case.peer for case in cases)
    versions = {name: PEERS[name].version() for name in peers}
    contenders = {case.contender for case in cases}
    versions |= {each.name: each.version for each in LIBRARIES if each.name in contenders and each.peer != "Penstock"}
    return {name: version for name, version in versions.items() if version}


def _outcome(case: _Case, number: int, rounds: int) -> Outcome:
    console.note(f"round {number + 1} of {rounds}: {case.group}: {case.workload}: {case.contender}")
    try:
        return Outcome(case.group, case.workload, case.contender, case.run())
    except (DriverError, OSError) as error:
        # A broker that closes connections or loses messages ends its own run, and no other.
        console.note(f"invalid: {error}")
        return Outcome(case.group, case.workload, case.contender, {}, str(error))


def _tell(comparison: Comparison, chosen: argparse.Namespace) -> int:
    for line in comparison.about:
        console.line(line)
    for report in tables(comparison.rows):
        report.show()
    verdict_table(comparison.rows, targets_of(comparison.groups)).show()
    remarks = [f"{row.workload}, {row.contender}: {row.remark}" for row in comparison.rows if row.remark]
    for remark in remarks:
        console.line(remark)
    if chosen.json is not None:
        chosen.json.write_text(json_text(comparison), encoding="utf-8")
    if chosen.chart is not None:
        draw_chart(comparison, chosen.chart)
    if chosen.markdown is not None:
        chart = chosen.chart.name if chosen.chart is not None else ""
        chosen.markdown.write_text(markdown(comparison, chart=chart), encoding="utf-8")
    return FAILURE if remarks else 0


def _install_missing(peers: Iterable[Peer]) -> None:
    packages = [peer.package for peer in peers if peer.missing()]
    if packages and (reason := install(packages)):
        console.note(f"not installed: {', '.join(packages)}: {reason}")


def _arguments(arguments: Sequence[str] | None, groups: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description="Measures Penstock beside other brokers."
    )
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        type=_known,
        default=list(groups or GROUPS),
        help=f"of {', '.join(GROUPS)}; or all",
    )
    parser.add_argument("--rounds", type=_positive, help="rounds, of which the medians are taken (5; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--seed", type=int, default=0, help="the source of all chance (0)")
    parser.add_argument("--install", action="store_true", help="install missing Debian packages, if we are root")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables there")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="also draw the headline figures there, as PNG")
    return parser.parse_args(arguments)


def _known(name: str) -> str:
    if name not in GROUPS:
        raise argparse.ArgumentTypeError(f"no group {name!r}; known are {', '.join(GROUPS)}")
    return name


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
