"""Measures this tree against an older commit: ``python -m bench --against COMMIT [NAME ...] [--rounds N]``.

The commit is checked out as a worktree in a temporary folder. Each round runs the benchmarks once with either version,
in alternating order, so that neither always has the warmer machine. This tree is measured as it is on disk, changes
that are not committed included.

Both versions are measured by the same code where possible: the benchmarks of this tree with the old ``penstock``, for
driver and broker. That needs benchmarks that load with the old packages, and the same protocol version; otherwise the
old version is measured by its own benchmarks, and the output says so.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.machine import load_before
from bench.ratios import Comparison, Figures, compare, not_compared
from penstock.cli.console import FAILURE, MISUSE, console, shown_number
from penstock.protocol.frames import PROTOCOL_VERSION

__all__ = ["DEFAULT_NAMES", "Tree", "run_against"]

DEFAULT_NAMES: Final = ("live", "durable")
"""The benchmarks that measure the hot path."""
_ROOT: Final = Path(__file__).resolve().parents[1]
_ENDING_S_MAX: Final = 30.0
"""How long an interrupted benchmark may take to end its brokers."""
_INTERRUPTED: Final = 130
_QUOTED_CHARS: Final = 2_000
_PROBE: Final = "import bench.__main__, penstock.protocol.frames as f; print(f.PROTOCOL_VERSION)"


class CheckoutError(RuntimeError):
    """The old version could not be checked out."""


class MeasuringError(RuntimeError):
    """The benchmarks of a version failed."""


@dataclass(slots=True, frozen=True)
class Tree:
    """Where one version is measured: the packages of one folder, by the benchmarks of the same or another one."""

    label: str
    packages: Path
    benches: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Python finds both, in processes that the benchmarks start as well."""
        return {**os.environ, "PYTHONPATH": f"{self.packages / 'src'}{os.pathsep}{self.benches}"}


def run_against(
    commit: str, names: Sequence[str], *, rounds: int, seed: int, quick: bool, json_file: Path | None
) -> int:
    """Measure both versions, print all ratios, and return the exit code: 1 if a figure is more than 10 % worse."""
    load_before()
    try:
        with _checked_out(commit) as folder:
            trees = [_old_tree(folder, commit), Tree("new", _ROOT, _ROOT)]
            options = [*(names or DEFAULT_NAMES), "--seed", str(seed), *(["--quick"] if quick else [])]
            pairs = [_round(trees, number, rounds, options) for number in range(rounds)]
    except CheckoutError as error:
        console.note(f"error: {error}")
        return MISUSE
    except MeasuringError as error:
        console.note(f"error: {error}")
        return FAILURE
    except KeyboardInterrupt:
        console.note("interrupted; the worktree has been removed")
        return _INTERRUPTED
    comparisons = compare(pairs)
    _show(comparisons, commit, rounds)
    for name in not_compared(pairs):
        console.note(f"not compared, as it is absent or zero in a run: {name}")
    if json_file is not None:
        encoded = msgspec.json.encode([asdict(each) for each in comparisons])
        json_file.write_bytes(msgspec.json.format(encoded, indent=2) + b"\n")
    return _exit_code(comparisons)


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """A worktree of a commit, removed in the end."""
    with TemporaryDirectory(prefix="penstock-against-") as temporary:
        folder = Path(temporary) / "old"
        try:
            _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
            yield folder
        finally:
            if folder.exists():
                _git("worktree", "remove", "--force", str(folder))


def _git(*arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        raise CheckoutError("git is not installed, and is needed to check out the old version")
    # Own process group: an interrupt must not end git halfway through adding or removing the worktree.
    done = subprocess.run([git, *arguments], cwd=_ROOT, capture_output=True, text=True, check=False, process_group=0)
    if done.returncode != 0:
        raise CheckoutError(f"git {arguments[0]} {arguments[1]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def _old_tree(folder: Path, commit: str) -> Tree:
    """The old version with our benchmarks if these can measure it, else with its own."""
    ours = Tree("old", folder, _ROOT)
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE], cwd=_ROOT, env=ours.environment, capture_output=True, text=True, check=False
    )
    if probe.returncode != 0:
        reason = probe.stderr.strip().rpartition("\n")[2]
        console.note(f"{commit} is measured by its own benchmarks, as ours do not load with it: {reason}")
        return Tree("old", folder, folder)
    if (version := int(probe.stdout)) != PROTOCOL_VERSION:
        console.note(f"{commit} is measured by its own benchmarks: its protocol is {version}, ours {PROTOCOL_VERSION}")
        return Tree("old", folder, folder)
    return ours


def _round(trees: Sequence[Tree], number: int, rounds: int, options: Sequence[str]) -> tuple[Figures, Figures]:
    found: dict[str, Figures] = {}
    for tree in trees if number % 2 == 0 else reversed(trees):
        console.note(f"round {number + 1} of {rounds}: {tree.label}")
        found[tree.label] = _measured(tree, options)
    return found["old"], found["new"]


def _measured(tree: Tree, options: Sequence[str]) -> Figures:
    with TemporaryDirectory(prefix="penstock-against-") as folder:
        file, log = Path(folder) / "figures.json", Path(folder) / "log"
        command = [sys.executable, "-m", "bench", *options, "--json", str(file)]
        if tree.benches == _ROOT:
            # The benchmarks of others may be too old to know this; those run no servers of others.
            command.append("--alone")
        with log.open("wb") as output:
            # Own process group: an interrupt at the terminal is for us, and we pass it on.
            process = subprocess.Popen(
                command, cwd=tree.benches, env=tree.environment, stdout=output, stderr=output, process_group=0
            )
            try:
                code = process.wait()
            except BaseException:
                _end(process)
                raise
        if code != 0:
            quoted = log.read_text(encoding="utf-8", errors="replace")[-_QUOTED_CHARS:]
            raise MeasuringError(f"the benchmarks of the {tree.label} version ended with code {code}:\n{quoted}")
        return msgspec.json.decode(file.read_bytes(), type=Figures)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a benchmark and let it end its brokers, which a kill would leave running."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_ENDING_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _show(comparisons: Sequence[Comparison], commit: str, rounds: int) -> None:
    columns = {"benchmark": "left", "figure": "left"} | dict.fromkeys(("old", "new", "new/old", "from", "to"), "right")
    rows = (
        (
            each.bench,
            each.figure,
            shown_number(each.old),
            shown_number(each.new),
            f"{each.ratio:.2f}",
            f"{each.lowest:.2f}",
            f"{each.highest:.2f}",
            each.verdict,
        )
        for each in comparisons
    )
    title = f"this tree against {commit}: medians of {rounds} rounds, and the range of the ratios"
    console.table(title, {**columns, "verdict": "left"}, rows)


def _exit_code(comparisons: Sequence[Comparison]) -> int:
    worse = [f"{each.bench} {each.figure}" for each in comparisons if each.is_regression]
    if worse:
        console.note(f"error: more than 10 % worse in every round: {', '.join(worse)}")
    return FAILURE if worse else 0
