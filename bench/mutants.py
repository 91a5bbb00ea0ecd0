"""Deliberate bugs, one at a time, that the campaign must find: ``python -m bench.mutants [--only NAME] [--seeds N]``.

Each mutant is a small replacement in one file of a copy of the sources; the working tree is never touched. The campaign
runs against the copy, in a process of its own, until a seed fails. A mutant that no seed finds is a hole in the proof:
then the exit code is 1.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from penstock.cli.console import FAILURE, console
from penstock.cli.progress import ProgressReporter
from penstock.model.errors import MisuseError
from penstock.sim.delivery import DeliveryCampaign

__all__ = ["MUTANTS", "Mutant", "main", "mutate"]

_SOURCES: Final = Path(__file__).resolve().parent.parent / "src"
_SEEDS: Final = 200


@dataclass(slots=True, frozen=True)
class Mutant:
    """A bug: a text in one file of the package, and what stands there instead."""

    name: str
    what: str
    file: str
    old: str
    new: str
    survives: str = ""
    """Why no seed has found it so far; it is hunted only if it is named, and listed as a hole in the proof."""


class _Found(NamedTuple):
    """The seed that failed and how; without a failure, the last seed that was tried."""

    seed: int
    failure: str


MUTANTS: Final = (
    Mutant(
        "ack-before-fsync",
        "publishers are acknowledged before their messages are durable",
        "broker/guaranteed.py",
        "return log.last_commit if log.last_commit > self._commits.durable else 0",
        "return 0",
    ),
    Mutant(
        "knowledge-before-fsync",
        "knowledge leaves before the messages in it are durable",
        "broker/guaranteed.py",
        '            self._router.counts["published"] += len(change.messages)\n',
        "            spoken = log.on_committed(log.last_commit, now_ms=now_ms)\n"
        "            self._now_ms = now_ms\n"
        "            if spoken is not None:\n"
        "                self._speak(log, spoken)\n",
    ),
    Mutant(
        "nack-range-forgotten",
        "the first range of every NACK is forgotten",
        "broker/carrier.py",
        "for first, last in nack.ranges:",
        "for first, last in nack.ranges[1:]:",
    ),
    Mutant(
        "delivers-above-doubt",
        "data beyond the doubt horizon is delivered with what lies before it",
        "streams/edge.py",
        "count = bisect_left(self._ticks, horizon)",
        "count = len(self._ticks)",
    ),
    Mutant(
        "old-silence-believed",
        "silence of an older version of the filter is believed",
        "broker/edges.py",
        "return version if incarnation == self._filters.incarnation else -1",
        "return COMPLETE",
    ),
    Mutant(
        "lease-ignored",
        "a restart begins at the last message instead of above the lease",
        "broker/pubend_log.py",
        "max(found.lease or 0, found.last_tick or 0, found.trimmed_below - 1, 0)",
        "max(found.last_tick or 0, found.trimmed_below - 1, 0)",
    ),
    Mutant(
        "dedup-forgotten",
        "what publishers have sent is forgotten at a restart",
        "broker/pubend_log.py",
        "self._sequences = dict(found.sequences)",
        "self._sequences: dict[bytes, int] = {}",
    ),
    Mutant(
        "cache-ignores-version",
        "a cache answers whatever the version of the asker's filter",
        "streams/cache.py",
        "if versions is not None and versions.get(host, _NONE) < version:",
        "if versions is not None and version < _NONE:",
    ),
    Mutant(
        "silence-not-voided",
        "silence goes on counting for hosts that lie behind another link now",
        "broker/lanes.py",
        "changes += [(host, *_VOID) for host in told if host not in versions]",
        "versions = {**told, **versions}",
    ),
    Mutant(
        "trimmed-is-silence",
        "what was trimmed from the log is answered as silence",
        "broker/guaranteed.py",
        "lost = Heard(nack.pubend, first, until, [], [], None, KnowledgeKind.LOST)",
        "lost = Heard(nack.pubend, first, until, [], [], None, KnowledgeKind.ANSWER)",
    ),
    Mutant(
        "resumes-too-late",
        "a subscription resumes one tick behind the position that it states",
        "broker/edges.py",
        "tick if wanted is None else wanted,",
        "tick if wanted is None else wanted + 1,",
    ),
    Mutant(
        "resumes-too-early",
        "a subscription resumes one tick before the position that it states",
        "broker/edges.py",
        "tick if wanted is None else wanted,",
        "tick if wanted is None else wanted - 1,",
    ),
    Mutant(
        "joins-too-early",
        "a catch-up joins the shared stream before it has reached it",
        "broker/edge.py",
        "if catch_up.ready or horizon < self.stream.horizon or self.stream.horizon < catch_up.meets_at:",
        "if catch_up.ready or self.stream.horizon < catch_up.meets_at:",
    ),
    Mutant(
        "joins-unconfirmed",
        "a catch-up joins the shared stream where that may lack what its members want",
        "broker/edge.py",
        "if catch_up.ready or horizon < self.stream.horizon or self.stream.horizon < catch_up.meets_at:",
        "if catch_up.ready or horizon < self.stream.horizon:",
        survives="open: needs old silence between a catch-up's answer and the tick of its confirmation",
    ),
    Mutant(
        "first-asker-only",
        "of several that asked for the same ticks only the first is answered",
        "broker/carrier.py",
        "for child, ranges in self._books[pubend].answered(heard.first, heard.last).items():",
        "for child, ranges in sorted(self._books[pubend].answered(heard.first, heard.last).items())[:1]:",
        survives="costs time, not messages: the others ask again after a second, and are answered then",
    ),
    Mutant(
        "answers-misdirected",
        "answers go to the first neighbour, whoever asked",
        "broker/carrier.py",
        "self.answer(child, heard.within(part.first, part.last))",
        "self.answer(min(self._connections.links, default=child), heard.within(part.first, part.last))",
    ),
    Mutant(
        "dropped-is-said",
        "versions in a frame that was dropped count as said",
        "broker/carrier.py",
        "            lane.dropped()\n",
        "            lane.sent()\n",
    ),
    Mutant(
        "gap-ignored",
        "what comes after a gap is taken as if nothing were missing",
        "streams/edge.py",
        "if first <= self.horizon:\n",
        "if first <= self.horizon or not self._known:\n",
    ),
    Mutant(
        "horizon-above-catch-up",
        "clients that are catching up are told the horizon of the shared stream",
        "broker/positions.py",
        "keys = [key for key, tick in edge.later.items() if tick == NEVER]",
        "keys = [key for key, tick in edge.later.items() if tick == -NEVER]",
    ),
    Mutant(
        "acknowledged-unread",
        "a host reports its own horizon instead of what its clients have acknowledged",
        "broker/positions.py",
        "yield pubend, min([edge.position(), *(each[pubend] for each in known if pubend in each)])",
        "yield pubend, edge.position()",
    ),
    Mutant(
        "starts-ignored",
        "what the shared stream delivers goes to all, wherever they begin",
        "broker/edges.py",
        "later = edge.later or None",
        "later = None",
    ),
    Mutant(
        "answers-before-commit",
        "a durable name is given away before the register is durable",
        "broker/pubend_desk.py",
        "        self._replies.append(_Reply(commit, frame.pubend, frame.host, answer))\n"
        "        if former is not None:",
        "        self._send(frame.pubend, frame.host, answer)\n        if former is not None:",
    ),
    Mutant(
        "name-not-registered",
        "the claim of a durable name never becomes durable",
        "broker/pubend_desk.py",
        "commit = self._commits.add(register.claim(frame.durable, frame.ownership, frame.host, tick))",
        "change = register.claim(frame.durable, frame.ownership, frame.host, tick)\n"
        '        commit = self._commits.add(SetValue(change.name + "?", change.value))',
    ),
    Mutant(
        "lower-owner-counts",
        "positions count that come from somebody who lost the name",
        "broker/register.py",
        "if known is None or ownership < known.ownership:",
        "if known is None:",
    ),
    Mutant(
        "durables-not-held",
        "trimming ignores the positions of durable subscriptions",
        "broker/finality.py",
        "final = min(final, furthest[1])",
        "final = min(final, log.promised + 1)",
    ),
    Mutant(
        "durable-off-by-one",
        "a durable subscription begins one tick behind its position",
        "broker/pubend_desk.py",
        "tick = max(known, stated) if frame.resumes and frame.tick != LATEST else known",
        "tick = max(known, stated) if frame.resumes and frame.tick != LATEST else known + 1",
    ),
    Mutant(
        "resumes-from-register",
        "a durable subscription whose client lives begins where the register says",
        "broker/pubend_desk.py",
        "tick = max(known, stated) if frame.resumes and frame.tick != LATEST else known",
        "tick = known",
    ),
    Mutant(
        "opened-ignored",
        "where the pubend said that a subscription begins is ignored: it begins now",
        "broker/edge.py",
        "return self.opened.get(pubend, self.positions.get(pubend))",
        "return self.positions.get(pubend)",
    ),
    Mutant(
        "taken-not-ended",
        "a name that was taken over stays with its former owner as well",
        "broker/edges.py",
        "ended = [each for each in named if each.ownership < ownership]",
        "ended: list[HostSubscription] = []",
    ),
    Mutant(
        "acknowledged-by-arrival",
        "a durable position moves with what was sent, not with what was acknowledged",
        "broker/positions.py",
        "reached = min(tick, edge.stream.horizon)",
        "reached = edge.stream.horizon",
    ),
    Mutant(
        "forget-keeps",
        "a name that is forgotten keeps its position",
        "broker/register.py",
        "if self._names.pop(name, None) is None:",
        "if self._names.get(name) is None:",
    ),
    Mutant(
        "missing-is-earliest",
        "`fail` is taken as `earliest` where a position is not kept any more",
        "broker/pubend_desk.py",
        'if frame.missing == "earliest" or',
        'if frame.missing != "latest" or',
    ),
    Mutant(
        "earliest-is-now",
        "whoever wants the earliest begins at what is published from now on",
        "broker/pubend_desk.py",
        '            return log.trimmed_below, ""\n',
        '            return following, ""\n',
    ),
    Mutant(
        "claim-begins-anew",
        "a name that is claimed again begins at what is published from now on",
        "broker/pubend_desk.py",
        "tick, problem = self._beginning(log, frame, None if known is None else known.tick, now_ms)",
        "tick, problem = self._beginning(log, frame, None, now_ms)",
    ),
)


def main(arguments: list[str] | None = None) -> int:
    """Hunt all mutants; 1 if one survives."""
    chosen = _parser().parse_args(arguments)
    if chosen.hunt:
        return _hunt_here(chosen.first, chosen.seeds)
    mutants = [each for each in MUTANTS if (each.name in chosen.only if chosen.only else not each.survives)]
    found: list[tuple[str, ...]] = []
    survivors = 0
    with ProgressReporter() as reporter, ThreadPoolExecutor(chosen.processes) as pool:
        reporter.stage(f"{len(mutants)} mutants, at most {chosen.seeds} seeds each", total=len(mutants))
        for mutant, (seed, failure) in zip(
            mutants, pool.map(lambda each: _hunt(each, chosen.seeds), mutants), strict=True
        ):
            reporter.advance()
            console.note(f"{mutant.name}: {f'{failure}, seed {seed}' if failure else 'SURVIVED'}")
            survivors += not failure
            found.append((mutant.name, mutant.what, str(seed) if failure else "", failure or "survived"))
    columns = {"mutant": "left", "bug": "left", "seed": "right", "found as": "left"}
    console.table(f"{len(mutants)} mutants, {survivors} survived", columns, iter(found))
    if not chosen.only:
        for mutant in [each for each in MUTANTS if each.survives]:
            console.line(f"not hunted, as it is known to survive: {mutant.name} ({mutant.survives})")
    return FAILURE if survivors else 0


def mutate(mutant: Mutant, sources: Path) -> None:
    """Put the bug into a copy of the sources."""
    file = sources / "penstock" / mutant.file
    text = file.read_text(encoding="utf-8")
    if (count := text.count(mutant.old)) != 1:
        raise MisuseError(f"mutant {mutant.name} fits {count} places in {mutant.file}, not one: {mutant.old!r}")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def _hunt(mutant: Mutant, seeds: int) -> _Found:
    """The seed that finds a mutant, and how."""
    with tempfile.TemporaryDirectory(prefix="penstock-mutant-") as folder:
        sources = Path(folder) / "src"
        shutil.copytree(_SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
        mutate(mutant, sources)
        first = 0
        while first < seeds:
            found = _first_failure(sources, first, seeds)
            # A seed that fails without the bug as well says nothing about it.
            if not found.failure or not _first_failure(_SOURCES, found.seed, found.seed + 1).failure:
                return found
            first = found.seed + 1
        return _Found(seeds, "")


def _first_failure(sources: Path, first: int, end: int) -> _Found:
    """The first seed from one on, and before another, that fails against some sources, in a process of its own."""
    command = [sys.executable, "-m", "bench.mutants", "--hunt", "--first", str(first), "--seeds", str(end)]
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=_SOURCES.parent, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MisuseError(f"a hunt failed: {done.stderr[-2_000:]}")
    seed, failure, imported = json.loads(done.stdout)
    assert imported.startswith(str(sources)), f"the hunt looked at {imported}, not at {sources}"
    return _Found(seed, failure)


def _hunt_here(first: int, end: int) -> int:
    """Run seeds against the package as it is imported here, until one fails; for the process of a mutant."""
    import penstock

    failure = None
    for seed in range(first, end):
        failure = DeliveryCampaign(seed).run().failure
        if failure is not None:
            break
    console.line(json.dumps([seed, failure or "", str(penstock.__file__)]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description="Deliberate bugs for the campaign.")
    parser.add_argument("--only", action="append", choices=[each.name for each in MUTANTS], help="this one; repeatable")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, default=_SEEDS, help=f"seeds to try at most ({_SEEDS})")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes to use (all cores)")
    parser.add_argument("--hunt", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
