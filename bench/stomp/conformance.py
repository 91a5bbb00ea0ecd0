"""Tries STOMP servers against every clause: ``python -m bench.stomp.conformance [--activemq] [--penstock] ...``.

    [--rabbitmq] [--server NAME=HOST:PORT[,ws=HOST:PORT]] [--only GLOB] [--markdown FILE] [--json FILE]

First by raw sockets, then by client libraries, which are installed into ``build/`` on their first use. If no server is
chosen, it tries Penstock. The exit code is 1 if a clause fails on Penstock, and ``bench/stomp/explanations.py`` does
not say why.

A server of ``--server`` may have more options: ``login``, ``passcode``, ``host`` (for CONNECT), ``path`` (of its
WebSocket), ``topics`` and ``queues`` (prefixes of destinations), ``dead`` (where dead letters go).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from bench.live_driver import DriverError
from bench.peers.activemq import ActiveMq
from bench.peers.output import here_and_now
from bench.peers.rabbitmq import RabbitMq
from bench.stomp.clause import Clause, State, Verdict, judge
from bench.stomp.clauses import CLAUSES
from bench.stomp.libraries import LIBRARIES, Library
from bench.stomp.penstock_server import penstock
from bench.stomp.servers import activemq, parse_server, rabbitmq
from bench.stomp.stage import Record, Stage, Target
from bench.stomp.table import Table
from penstock.cli.console import FAILURE, console

__all__ = ["main"]

_OURS: Final = "Penstock"
_INTERRUPTED: Final = 130

Start = Callable[[], AbstractContextManager[Target]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all servers, show and write the table; 1 if Penstock fails where nobody has said why."""
    chosen = _arguments(arguments)
    starts, missing = _chosen_servers(chosen)
    for each in missing:
        console.note(f"skipped: {each}")
    clauses = [each for each in CLAUSES if _is_wanted(each.identifier, chosen.only)]
    libraries = [each for each in LIBRARIES if any(_is_wanted(name, chosen.only) for name in each.identifiers)]
    unusable = {each.name: reason for each in libraries if (reason := each.install())}
    for name, reason in unusable.items():
        console.note(f"skipped: {name}: {reason}")
    date, commit, machine = here_and_now()
    skipped = [*missing, *(f"{name}: {reason}" for name, reason in unusable.items())]
    table = Table(
        list(starts), about=[f"{date}, commit {commit}, {machine}", *(f"skipped: {each}" for each in skipped)]
    )
    _lay_out(table, clauses, libraries, chosen.only)
    try:
        for name, start in starts.items():
            _try_server(table, name, start, clauses, libraries, unusable)
    except KeyboardInterrupt:
        console.note("interrupted; all servers have been ended")
        return _INTERRUPTED
    return _tell(table, chosen)


def _try_server(
    table: Table,
    name: str,
    start: Start,
    clauses: Sequence[Clause],
    libraries: Sequence[Library],
    unusable: dict[str, str],
) -> None:
    """Start a server, and try it by raw sockets and by libraries."""
    start_s = time.monotonic()
    with ExitStack() as stack:
        try:
            target = stack.enter_context(start())
        except DriverError as error:
            console.note(f"{name} does not run: {error}")
            for identifier in table.rows:
                table.set(identifier, name, Verdict(State.FAILED, "the server does not run"))
            return
        record = Record()
        for number, clause in enumerate(clauses, start=1):
            began_s = time.monotonic()
            verdict = judge(clause, Stage(target, clause.version, record))
            table.set(clause.identifier, name, verdict)
            took_s = time.monotonic() - began_s
            console.note(f"{name} {number}/{len(clauses)} {clause.identifier}: {verdict} ({took_s:.1f} s)")
        for library in libraries:
            wanted = [each for each in library.identifiers if each in table.rows]
            skipped = Verdict(State.SKIPPED, unusable.get(library.name, ""))
            verdicts = ((each, skipped) for each in wanted) if skipped.seen else library.run(target, wanted)
            for identifier, verdict in verdicts:
                table.set(identifier, name, verdict)
                console.note(f"{name} {identifier}: {verdict}")
    table.about.append(f"{name}: {time.monotonic() - start_s:.0f} s, its start included")


def _lay_out(table: Table, clauses: Sequence[Clause], libraries: Sequence[Library], only: Sequence[str]) -> None:
    for clause in clauses:
        table.add(clause.identifier, clause.need, clause.text)
    for library in libraries:
        for identifier, text in library.identifiers.items():
            if _is_wanted(identifier, only):
                table.add(identifier, library.need, text)


def _chosen_servers(chosen: argparse.Namespace) -> tuple[dict[str, Start], list[str]]:
    """How to start each server by name, and what cannot be started."""
    starts: dict[str, Start] = {}
    missing: list[str] = []
    for is_wanted, peer, start in ((chosen.activemq, ActiveMq(), activemq), (chosen.rabbitmq, RabbitMq(), rabbitmq)):
        if is_wanted and (reason := peer.missing()):
            missing.append(f"{peer.name}: {reason}")
        elif is_wanted:
            starts[peer.name] = start
    for target in chosen.server:
        starts[target.name] = lambda target=target: nullcontext(target)  # type: ignore[misc]
    if chosen.penstock or not (starts or missing):
        starts[_OURS] = penstock
    return starts, missing


def _is_wanted(identifier: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatchcase(identifier, each) for each in only)


def _tell(table: Table, chosen: argparse.Namespace) -> int:
    table.show()
    for clause, server in table.needless():
        console.note(f"explained, but not failing: {clause} at {server}")
    if chosen.markdown is not None:
        chosen.markdown.write_text(table.markdown(), encoding="utf-8")
    if chosen.json is not None:
        chosen.json.write_text(table.json_text(), encoding="utf-8")
    if _OURS not in table.servers:
        return 0
    unexplained = table.unexplained(_OURS)
    for identifier in unexplained:
        console.line(f"failed, and not explained: {identifier}: {table.rows[identifier].verdicts[_OURS].seen}")
    return FAILURE if unexplained else 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.stomp.conformance", description="Tries STOMP servers against every clause of STOMP."
    )
    parser.add_argument("--activemq", action="store_true", help="start ActiveMQ, if it is installed, and try it")
    parser.add_argument("--rabbitmq", action="store_true", help="start RabbitMQ, if it is installed, and try it")
    parser.add_argument("--penstock", action="store_true", help="start a broker of this tree, and try it (the default)")
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        type=_server,
        metavar="NAME=HOST:PORT[,ws=HOST:PORT]",
        help="try a server that runs already; may be repeated",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="only these clauses, as '1.2/ack/*'"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table there")
    return parser.parse_args(arguments)


def _server(text: str) -> Target:
    try:
        return parse_server(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
