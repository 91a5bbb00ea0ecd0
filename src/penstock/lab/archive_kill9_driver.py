"""The archive of ``archive-kill9`` as a process of its own: started, watched from outside, killed in a chosen phase.

Everything is seen by what is on the disk, so that the archive needs to know nothing of being watched. What it starts
itself (Java, and Spark's Python workers) is found by its parents, so that nothing stays behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias

import msgspec

from penstock.model.errors import PenstockError
from penstock.model.lake_tables import PUBLICATIONS

__all__ = ["PHASES", "ArchiveDriver", "Birth", "DriverError", "Phase", "descendants", "is_in_phase"]

Phase: TypeAlias = Literal["start", "batch", "staging", "publishing", "merging"]

PHASES: Final[tuple[Phase, ...]] = ("start", "batch", "staging", "publishing", "merging")
"""Before any batch; while a batch runs; when its first file is written; while its files become visible; while files are
merged."""

_COMMAND: Final = (sys.executable, "-c", "from penstock.cli import main; main()", "pipeline", "archive")
_START_S_MAX: Final = 10.0
"""A kill at the start comes within this time: Spark itself takes about eight seconds."""
_BATCH_S_MAX: Final = 1.5
_LOOK_S: Final = 0.02
_LOOK_CLOSELY_S: Final = 0.001
"""Once there is a batch: it becomes visible, and is merged, within some milliseconds."""
_GONE_S_MAX: Final = 20.0
_QUOTED_LINES: Final = 10


class DriverError(PenstockError):
    """The archive does not get anywhere."""


@dataclass(slots=True, frozen=True)
class Birth:
    """What an earlier life had left on the disk when this one began: it shows nothing of this one."""

    offset: int
    """The newest batch that Spark knew."""
    sequence: int
    """Of the journal."""
    at_ns: int
    """By the clock by which files are dated."""

    @classmethod
    def of(cls, lake: Path) -> Birth:
        """A life that begins now."""
        return cls(_newest_offset(lake), _sequence(_journal(lake)), time.time_ns())


class ArchiveDriver:
    """The archive's process, one life after the other."""

    def __init__(self, lake: Path, options: Sequence[str], *, command: Sequence[str] = _COMMAND) -> None:
        self.lake: Final = lake
        self._options, self._command = tuple(options), tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._left_over: dict[int, str] = {}
        self._birth = Birth.of(lake)
        self._exit_code: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """With which code it has ended by itself; none if it runs, or was killed."""
        return self._exit_code

    @property
    def last_line(self) -> str:
        """What it told last."""
        return self.log.rpartition("\n")[2].strip()

    @property
    def log(self) -> str:
        """The last lines of what it has told, in all its lives."""
        path = self._log_path
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        return "\n  ".join(lines[-_QUOTED_LINES:])

    def start(self, *more: str) -> None:
        """Begin another life."""
        assert not self.is_running, "the archive runs already"
        self._exit_code = None
        self._birth = Birth.of(self.lake)
        with self._log_path.open("ab") as log:
            command = [*self._command, "--lake", str(self.lake), *self._options, *more]
            # A group of its own: Ctrl-C at the terminal is for us. Who is killed leaves temporary files behind.
            self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                env={**os.environ, "TMPDIR": str(self.lake.parent), "SPARK_LOCAL_DIRS": str(self.lake.parent)},
            )

    async def kill_in(self, phase: Phase, rng: Random, *, patience_s: float) -> bool:
        """Kill it in a phase of its work; answers whether it came to that, and neither ended nor took too long."""
        deadline_s = time.monotonic() + (rng.uniform(0.0, _START_S_MAX) if phase == "start" else patience_s)
        hit = at_work = False
        while self.is_running and time.monotonic() < deadline_s and not hit:
            await asyncio.sleep(_LOOK_CLOSELY_S if at_work else _LOOK_S)
            at_work = at_work or is_in_phase("batch", self.lake, self._birth)
            hit = phase != "start" and is_in_phase(phase, self.lake, self._birth)
        if phase == "batch" and hit:
            await asyncio.sleep(rng.uniform(0.0, _BATCH_S_MAX))
        hit = (hit or phase == "start") and self.is_running
        # Either all at once, as when a machine stops, or the driver alone, whose Java has to find that out.
        self.kill(alone=rng.random() < 0.5)
        return hit

    async def ended(self, *, patience_s: float) -> int | None:
        """Its exit code when it has ended by itself; none if that takes too long."""
        deadline_s = time.monotonic() + patience_s
        while self.is_running:
            if time.monotonic() > deadline_s:
                return None
            await asyncio.sleep(0.05)
        return None if self._process is None else self._process.returncode

    def kill(self, *, alone: bool = False) -> None:
        """End it with SIGKILL, with all that it has started unless it is to be alone in that."""
        process, self._process = self._process, None
        if process is None:
            return
        self._exit_code = process.poll()
        family = descendants(process.pid)
        self._left_over |= family
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if not alone:
            _kill(family)

    async def close(self) -> int:
        """End everything that is left of all lives; answers with how many processes had to be killed for that."""
        self.kill(alone=True)
        deadline_s = time.monotonic() + _GONE_S_MAX
        while _alive(self._left_over) and time.monotonic() < deadline_s:
            await asyncio.sleep(0.05)
        left = _alive(self._left_over)
        _kill(left)
        return len(left)

    def kill_all(self) -> None:
        """End everything at once, when there is no time for order."""
        self.kill()
        _kill(_alive(self._left_over))

    @property
    def _log_path(self) -> Path:
        return self.lake.with_name(f"{self.lake.name}.log")


def is_in_phase(phase: Phase, lake: Path, birth: Birth) -> bool:
    """Whether what is on the disk shows that a life is in the phase."""
    match phase:
        case "start":
            return True
        case "batch":
            return _newest_offset(lake) > birth.offset
        case "staging":
            return _has_fresh(lake, "_staging/*-*/*.parquet", birth)
        case "publishing":
            journal = _journal(lake)
            return _sequence(journal) > birth.sequence and not journal["batch"]["is_done"]
        case "merging":
            journal = _journal(lake)
            is_on_its_way = _sequence(journal) > birth.sequence and bool(journal["compactions"])
            return is_on_its_way or _has_fresh(lake, "_staging/compaction/*.parquet", birth)


def descendants(pid: int) -> dict[int, str]:
    """The processes that a process has started, and those that they have, each with what tells it from a later one."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                for child in map(int, (task / "children").read_text().split()):
                    if child not in found and (started := _started(child)) is not None:
                        found[child] = started
                        waiting.append(child)
    return found


def _started(pid: int) -> str | None:
    """When a process was started, in the kernel's count; none if there is no such process, or only its exit code."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _alive(processes: dict[int, str]) -> dict[int, str]:
    return {pid: started for pid, started in processes.items() if _started(pid) == started}


def _kill(processes: dict[int, str]) -> None:
    for pid in _alive(processes):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _newest_offset(lake: Path) -> int:
    names = (lake / "_checkpoints" / PUBLICATIONS.name / "spark" / "offsets").glob("[0-9]*")
    return max((int(path.name) for path in names if path.name.isdigit()), default=-1)


def _has_fresh(lake: Path, pattern: str, birth: Birth) -> bool:
    for path in (lake / PUBLICATIONS.name).glob(pattern):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime_ns > birth.at_ns:
                return True
    return False


def _journal(lake: Path) -> dict[str, Any]:
    try:
        journal: dict[str, Any] = msgspec.json.decode((lake / PUBLICATIONS.name / "_journal.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return journal


def _sequence(journal: Mapping[str, Any]) -> int:
    return int(journal.get("sequence", -1))
