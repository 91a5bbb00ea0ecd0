"""``python -m bench hostile``: runs every attack against this tree, and optionally against another one.

    python -m bench hostile [--only NAME] [--against SRC] [--seconds S] [--inputs N] [--folder PATH] [--json FILE]

The table shows for each tree what happened: exit codes, the broker's memory before and at its peak, the longest wait of
an honest message, what was lost, and what the attacker was told. The exit code is 1 if an attack harmed this tree.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import msgspec

from bench.hostile.catalogue import ATTACKS, NOISE, STORM
from bench.hostile.fighting import Outcome, fight
from bench.hostile.trees import Tree
from penstock.cli.console import console
from penstock.cli.progress import ProgressReporter

__all__ = ["main"]

_BEFORE: Final = "before"
_AFTER: Final = "after"


def main(arguments: list[str] | None = None) -> int:
    """Run the attacks, print the table, and return 1 if this tree was harmed."""
    chosen = _parser().parse_args(arguments)
    names = chosen.only or list(ATTACKS)
    trees = [Tree(_BEFORE, chosen.against)] if chosen.against is not None else []
    trees.append(Tree(_AFTER))
    outcomes: list[Outcome] = []
    with ProgressReporter() as reporter:
        reporter.stage(f"{len(names)} attacks on {len(trees)} trees", total=len(names) * len(trees))
        for name in names:
            for tree in trees:
                seconds = chosen.storm_seconds if name == STORM else chosen.seconds
                size = {"seconds": seconds, "inputs": chosen.inputs, "seed": chosen.seed}
                outcomes.append(fight(tree, name, **size, parent=chosen.folder))
                console.note(f"{name}, {tree.label}: {_told(outcomes[-1])}")
                reporter.advance()
    _print(outcomes, [tree.label for tree in trees])
    if chosen.json is not None:
        chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=2) + b"\n")
    return 1 if any(each.is_harmed for each in outcomes if each.tree == _AFTER) else 0


def _print(outcomes: list[Outcome], labels: list[str]) -> None:
    cells = {(each.attack, each.tree): _told(each) for each in outcomes}
    rows = [
        (f"{name}: {ATTACKS[name].title}", *(cells[name, label] for label in labels))
        for name in dict.fromkeys(each.attack for each in outcomes)
    ]
    console.table("attacks", dict.fromkeys(("attack", *labels), "left"), iter(rows))
    for label in labels:
        harmed = [each.attack for each in outcomes if each.tree == label and each.is_harmed]
        console.line(
            f"{label}: {len(harmed)} of {len(rows)} attacks did harm{': ' if harmed else ''}{', '.join(harmed)}"
        )
    for each in outcomes:
        if each.attack == STORM and each.honest is not None:
            seen, missing = each.honest, each.honest.published - each.honest.received
            console.line(
                f"storm, {each.tree}: p50 {seen.p50_ms:.1f} ms, p99 {seen.p99_ms:.1f} ms, "
                f"longest {seen.stall_ms:.0f} ms (own {seen.own_ms:.0f} ms), {seen.published:,} published, "
                f"{missing:,} lost, peak {each.peak_mib:.0f} MiB"
            )


def _told(outcome: Outcome) -> str:
    return f"{'HARMED' if outcome.is_harmed else 'held'}: {outcome.text()}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench hostile", description="Attacks brokers on loopback.")
    parser.add_argument("--only", action="append", choices=list(ATTACKS), help="only this attack; may be repeated")
    parser.add_argument("--against", type=Path, metavar="SRC", help="also attack the tree with this src folder")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long attacks without an end go on (8)")
    parser.add_argument("--storm-seconds", type=float, default=30.0, help="how long the storm goes on (30)")
    parser.add_argument("--inputs", type=int, default=20_000, help=f"how many inputs {NOISE} throws (20,000)")
    parser.add_argument("--seed", type=int, default=0, help=f"which inputs {NOISE} throws (0)")
    parser.add_argument(
        "--folder", type=Path, help="where brokers keep their data; one in memory leaves the disk out of the waits"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all outcomes there")
    return parser
