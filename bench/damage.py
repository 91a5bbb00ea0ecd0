"""Damages the files of stores, and checks that no damage is silent: ``python -m bench.damage --seeds N [--first N]``.

Each seed makes a store with a random history, closes it or leaves it as a kill would, damages one of its files, and
opens it again. An oracle that only saw what was acknowledged judges the outcome:

    recovered  everything is as it was
    named      something is missing, and the store says what: ticks, a value, a kept record
    refused    the store does not open or stops, and its files are unchanged; then it is salvaged, and whatever
               salvaging does not recover must be named as well
    silent     something is missing or different, and nobody was told: a fault, and the exit code is 1

A store that opens gets some more commits and is opened once more, so that damage that spreads is found, too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from bench.damage_oracle import Truth, differences
from bench.fuzzing import Fault
from penstock.cli.console import console
from penstock.cli.progress import ProgressReporter
from penstock.live.store import (
    Append,
    Change,
    ForgetPublishers,
    KeepRecord,
    LogStore,
    SetValue,
    StoreFailedError,
    StoreRefusedError,
    Trim,
)
from penstock.live.store.salvage import salvage
from penstock.model.tick import Tick

__all__ = [
    "KINDS",
    "OUTCOMES",
    "History",
    "Outcome",
    "damage_campaign",
    "damaged",
    "judged",
    "made",
    "main",
    "run_seed",
]

OUTCOMES: Final = ("recovered", "named", "refused", "silent")
_RESERVE_BYTES: Final = 16_384
_PUBENDS: Final = ("p", "q")
_SILENT_MAX: Final = 10
"""Silent damages after which the run stops: more would only repeat the story."""


@dataclass(slots=True, frozen=True)
class Outcome:
    """The outcome of one damage."""

    seed: int
    state: str
    """``closed`` or ``killed``."""
    file: str
    kind: str
    result: str
    """One of ``OUTCOMES``."""
    story: str = ""


# Histories.


@dataclass(slots=True)
class History:
    """A store being written, and what it acknowledged."""

    rng: Random
    folder: Path
    truth: Truth = field(default_factory=Truth)
    ticks: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_PUBENDS, 0))
    commits: int = 0

    def open(self) -> LogStore:
        """Open the store."""
        return LogStore.open(self.folder, overlay="o", broker="b", reserve_bytes=_RESERVE_BYTES)

    def write(self, store: LogStore, commits: int) -> None:
        """Make some commits, of everything that a broker does."""
        for _ in range(commits):
            changes = self._changes()
            store.commit(changes)
            self.commits += 1
            self.truth.acknowledge(changes)
            if self.rng.random() < 0.05:
                # Happens by itself when the log has grown: it is moved into the database, and starts empty.
                store.move_log()

    def _changes(self) -> list[Change]:
        rng = self.rng
        changes: list[Change] = []
        for pubend in rng.sample(_PUBENDS, rng.randint(1, 2)):
            first = self.ticks[pubend] + rng.randint(1, 3)
            size = rng.choice((10, 100, 100, 5_000))
            messages = [(Tick(first + each), rng.randbytes(size)) for each in range(rng.randint(1, 5))]
            self.ticks[pubend] = messages[-1][0]
            lease = Tick(self.ticks[pubend] + 10) if rng.random() < 0.5 else None
            publishers = {bytes([rng.randrange(40)]) * 16: rng.randrange(1 << 40) for _ in range(rng.randint(0, 4))}
            changes.append(Append(pubend, messages, self.truth.lease_at_least(pubend, lease), publishers))
        if rng.random() < 0.3:
            changes.append(SetValue(f"v{rng.randrange(5)}", rng.choice((None, rng.randbytes(20)))))
        if rng.random() < 0.4:
            changes.append(KeepRecord(f"k{rng.randrange(6)}", rng.choice((None, rng.randbytes(50), bytes(6_000)))))
        if rng.random() < 0.1:
            pubend = rng.choice(_PUBENDS)
            changes.append(Trim(pubend, Tick(rng.randint(0, self.ticks[pubend]))))
        if rng.random() < 0.03:
            pubend = rng.choice(_PUBENDS)
            changes.append(ForgetPublishers(pubend, Tick(rng.randint(0, self.ticks[pubend]))))
        return changes


def made(rng: Random, root: Path, state: str) -> tuple[History, Path, Path]:
    """Make a history, the folder that it left, and an older copy of that folder."""
    history = History(rng, root / "store")
    store = history.open()
    parts = rng.randint(2, 4)
    older = rng.randrange(parts - 1) if parts > 2 else 0
    for part in range(parts):
        history.write(store, rng.randint(1, 30))
        if part == older:
            shutil.copytree(history.folder, root / "older")
        if part < parts - 1 and rng.random() < 0.5:
            store.close()
            store = history.open()
    if state == "closed":
        store.close()
    shutil.copytree(history.folder, root / "damaged")
    store.close()
    return history, root / "damaged", root / "older"


# Damages: each changes a file, and says whether there was anything to change.


def _flip(rng: Random, file: Path, _older: Path) -> bool:
    content = bytearray(file.read_bytes())
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
    return bool(content)


def _overwrite(rng: Random, file: Path, filler: Callable[[int], bytes]) -> bool:
    size = file.stat().st_size
    if not size:
        return False
    start = rng.randrange(size)
    if rng.random() < 0.5:
        start -= start % 512
    length = min(size - start, rng.choice((1, 8, 100, 512, 4_096, 10_000)))
    before = file.read_bytes()
    with file.open("r+b") as raw:
        raw.seek(start)
        raw.write(filler(length))
    return file.read_bytes() != before


def _scribble(rng: Random, file: Path, _older: Path) -> bool:
    return _overwrite(rng, file, rng.randbytes)


def _zero(rng: Random, file: Path, _older: Path) -> bool:
    return _overwrite(rng, file, bytes)


def _truncate(rng: Random, file: Path, _older: Path) -> bool:
    size = file.stat().st_size
    length = rng.choice(
        (rng.randrange(size + 1), max(0, size - rng.randrange(5_000)), rng.randrange(size + 1) & ~4_095)
    )
    os.truncate(file, min(length, size))
    return length < size


def _remove(_rng: Random, file: Path, _older: Path) -> bool:
    file.unlink()
    return True


def _older(_rng: Random, file: Path, older: Path) -> bool:
    source = older / file.name
    if not source.exists():
        return False
    before = file.read_bytes()
    shutil.copyfile(source, file)
    return file.read_bytes() != before


KINDS: Final[dict[str, Callable[[Random, Path, Path], bool]]] = {
    "bit flipped": _flip,
    "random bytes": _scribble,
    "zeroes": _zero,
    "truncated": _truncate,
    "missing": _remove,
    "older copy": _older,
}


# One seed.


def run_seed(seed: int, folder: Path | None = None) -> Outcome:
    """Damage one store, in this folder if given; the same seed gives the same damage."""
    rng = Random(f"damage/{seed}")
    with TemporaryDirectory(prefix="penstock-damage-", dir=folder) as name:
        root = Path(name)
        state = rng.choice(("closed", "killed"))
        history, folder, older = made(rng, root, state)
        file, kind = damaged(rng, folder, older)
        result, story = judged(history, folder)
    # The name of the folder is random, and so may look like anything.
    return Outcome(seed, state, file, kind, result, story.replace(name, "FOLDER"))


def damaged(rng: Random, folder: Path, older: Path) -> tuple[str, str]:
    """Damage a random file in a random way that changes something."""
    while True:
        files = sorted(each for each in folder.iterdir())
        # The reserve and the witness are of minor interest, but each must have its turn.
        file = rng.choice(files + [each for each in files if each.name.startswith("store.sqlite")] * 2)
        kind = rng.choice(list(KINDS))
        if KINDS[kind](rng, file, older):
            return file.name, kind


def judged(history: History, folder: Path) -> tuple[str, str]:
    """Judge a damaged store: one of ``OUTCOMES``, and what the store said."""
    before = _contents(folder)
    life = History(history.rng, folder, history.truth.copy(), dict(history.ticks))
    named: list[str] = []
    try:
        _live_on(life, named)
    except (StoreRefusedError, StoreFailedError) as error:
        if isinstance(error, StoreRefusedError) and life.commits == 0 and _contents(folder) != before:
            return "silent", f"the files of a refused store were changed: {error}"
        return _salvaged(life, str(error))
    except Fault as fault:
        return "silent", str(fault)
    return ("named", "; ".join(named)) if named else ("recovered", "")


def _live_on(life: History, named: list[str]) -> None:
    """Open the store, compare, write some more, and compare again, now and after reopening."""
    with closing(life.open()) as store:
        named += _compared(life.truth, store)
        life.write(store, 12)
        named += _compared(life.truth, store)
        for pubend in _PUBENDS:
            store.trim(pubend, Tick(life.ticks[pubend] // 2))
            life.truth.acknowledge([Trim(pubend, Tick(life.ticks[pubend] // 2))])
    with closing(life.open()) as store:
        named += _compared(life.truth, store)


def _compared(truth: Truth, store: LogStore) -> list[str]:
    found = differences(truth, store)
    if found.silent:
        raise Fault("; ".join(found.silent))
    return found.named


def _salvaged(life: History, reason: str) -> tuple[str, str]:
    """Salvage a refused store as its operator would; whatever is still missing must be named, too."""
    try:
        done = salvage(life.folder, stamp="now", now_ms=1, owner=("o", "b"), pubends=_PUBENDS)
    except StoreRefusedError as error:
        return "silent", f"refused ({reason}), but cannot be salvaged: {error}"
    with closing(life.open()) as store:
        found = differences(life.truth, store, doubts=done.doubts, is_salvaged=True)
        if found.silent:
            return "silent", f"refused ({reason}), and salvaging was silent: {'; '.join(found.silent)}"
    return "refused", reason


def _contents(folder: Path) -> dict[str, bytes]:
    # The reserve does not count: it may be recreated at any time.
    return {each.name: each.read_bytes() for each in sorted(folder.iterdir()) if each.name != "reserve"}


def damage_campaign(rng: Random) -> None:
    """One seed's share of a soak."""
    outcome = run_seed(rng.getrandbits(32))
    if outcome.result == "silent":
        raise Fault(f"{outcome.kind} in {outcome.file} of a {outcome.state} store: {outcome.story}")


# The command.


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds, print the tables, and return 1 if any damage was silent."""
    chosen = _parser().parse_args(arguments)
    started_s = time.monotonic()
    outcomes: list[Outcome] = []
    silent = 0
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    with ProgressReporter() as reporter:
        reporter.stage(f"{chosen.seeds:,} damages from seed {chosen.first}", total=chosen.seeds)
        for outcome in _outcomes(seeds, chosen.processes):
            outcomes.append(outcome)
            reporter.advance()
            if outcome.result == "silent":
                silent += 1
                console.note(f"SILENT: {outcome}\nagain: python -m bench.damage --seeds 1 --first {outcome.seed}")
            elif chosen.seeds == 1:
                console.note(str(outcome))
            if silent >= _SILENT_MAX:
                break
    for title, key in (("kind", _by_kind), ("file", _by_file)):
        _print(title, outcomes, key)
    console.line(f"{len(outcomes):,} damages, {silent} silent, {time.monotonic() - started_s:.1f} s")
    return 1 if silent else 0


def _outcomes(seeds: range, processes: int) -> Iterator[Outcome]:
    if processes == 1 or len(seeds) == 1:
        yield from map(run_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(run_seed, seeds, chunksize=4)


def _by_kind(outcome: Outcome) -> str:
    return outcome.kind


def _by_file(outcome: Outcome) -> str:
    return f"{outcome.file}, {outcome.state}"


def _print(title: str, outcomes: list[Outcome], key: Callable[[Outcome], str]) -> None:
    counts = Counter((key(outcome), outcome.result) for outcome in outcomes)
    names = sorted({name for name, _ in counts})
    rows = [(name, *(f"{counts[name, result]:,}" for result in OUTCOMES)) for name in names]
    totals = Counter(outcome.result for outcome in outcomes)
    rows.append(("all", *(f"{totals[result]:,}" for result in OUTCOMES)))
    columns = {title: "left"} | dict.fromkeys(OUTCOMES, "right")
    console.table("damages by " + title, columns, iter(rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.damage", description="Damages the files of stores.")
    parser.add_argument("--seeds", type=int, default=2_000, help="how many damages (2,000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes to use (all cores)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
