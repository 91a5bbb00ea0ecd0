"""Runs the relay of ``sink-kill9`` as a separate process, and kills its executors and driver in a chosen phase.

The phase is inferred from the files on disk, so the relay need not know that it is watched.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias

import msgspec

from penstock.lab.delivery.kill9.process import Kill9Process, command_of, kill_processes

__all__ = ["PHASES", "Birth", "Phase", "SinkDriver", "is_in_phase"]

Phase: TypeAlias = Literal["start", "batch", "staging", "publishing", "committed"]

PHASES: Final[tuple[Phase, ...]] = ("start", "batch", "staging", "publishing", "committed")
"""Before any batch; while a batch runs; when its first rows are staged; when it is committed and being published; when
it is published but Spark has not recorded that."""

_COMMAND: Final = ("nice", "-n", "10", sys.executable, "-m", "penstock.pipeline.sink.relay")
"""Every start launches three Javas at once: on a small machine brokers would wait minutes for them."""
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_START_S_MAX: Final = 12.0
_BATCH_S_MAX: Final = 1.5
_LOOK_S: Final = 0.02
_LOOK_CLOSELY_S: Final = 0.002


@dataclass(slots=True, frozen=True)
class Birth:
    """State on disk at some moment, which says nothing about later events."""

    offset: int
    """The newest batch in Spark's checkpoint."""
    sequence: int
    """Sequence number of the journal."""
    at_ns: int
    """The moment, by the clock that dates files."""

    @classmethod
    def of(cls, folder: Path) -> Birth:
        """The state now."""
        return cls(_newest(folder, "offsets"), _sequence(_journal(folder)), time.time_ns())


class SinkDriver(Kill9Process):
    """The relay's process, restarted after every kill."""

    def __init__(self, folder: Path, options: Sequence[str], *, command: Sequence[str] = _COMMAND) -> None:
        super().__init__([*command, "--folder", str(folder), *options], folder.with_name(f"{folder.name}.log"))
        self.folder: Final = folder

    async def kill_executor(self, rng: Random, *, patience_s: float) -> bool:
        """Kill an executor while a batch runs, and wait until the next batch is published regardless."""
        if not await self._until("batch", Birth.of(self.folder), patience_s):
            return False
        await asyncio.sleep(rng.uniform(0.0, _BATCH_S_MAX))
        executors = {pid: started for pid, started in self.family().items() if _EXECUTOR in command_of(pid)}
        if not executors or not self.is_running:
            return False
        victim = rng.choice(sorted(executors))
        kill_processes({victim: executors[victim]})
        return await self._until("publishing", Birth.of(self.folder), patience_s)

    async def kill_in(self, phase: Phase, rng: Random, *, patience_s: float) -> bool:
        """Kill the driver in a phase of its work; returns whether it got there."""
        if phase == "start":
            await self.ended(patience_s=rng.uniform(0.0, _START_S_MAX))
            hit = self.is_running
        else:
            hit = await self._until(phase, Birth.of(self.folder), patience_s)
            if phase == "batch" and hit:
                await asyncio.sleep(rng.uniform(0.0, _BATCH_S_MAX))
            hit = hit and self.is_running
        # Kill either the whole process tree, as when a machine stops, or only the driver, which its Java has to notice.
        self.kill(alone=rng.random() < 0.5)
        return hit

    async def _until(self, phase: Phase, birth: Birth, patience_s: float) -> bool:
        """Wait for the files to show the phase after ``birth``; returns whether they did."""
        deadline_s = time.monotonic() + patience_s
        at_work = False
        while self.is_running and time.monotonic() < deadline_s:
            if is_in_phase(phase, self.folder, birth):
                return True
            at_work = at_work or is_in_phase("batch", self.folder, birth)
            await asyncio.sleep(_LOOK_CLOSELY_S if at_work else _LOOK_S)
        return False


def is_in_phase(phase: Phase, folder: Path, birth: Birth) -> bool:
    """Whether the files on disk show that the relay is in the phase."""
    if phase == "start":
        return True
    if phase == "batch":
        return _newest(folder, "offsets") > birth.offset
    if phase == "staging":
        return _has_fresh_rows(folder, birth)
    journal = _journal(folder)
    if _sequence(journal) <= birth.sequence:
        return False
    batch = journal["batch"]
    if phase == "publishing":
        return bool(batch["settled"] < batch["rows"])
    return batch["settled"] == batch["rows"] and int(journal["stream"]) > _newest(folder, "commits")


def _newest(folder: Path, part: str) -> int:
    names = (folder / "checkpoint" / part).glob("[0-9]*")
    return max((int(path.name) for path in names if path.name.isdigit()), default=-1)


def _has_fresh_rows(folder: Path, birth: Birth) -> bool:
    for path in (folder / "staging/staged/stream").glob("*.rows"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime_ns > birth.at_ns:
                return True
    return False


def _journal(folder: Path) -> dict[str, Any]:
    try:
        journal: dict[str, Any] = msgspec.json.decode((folder / "staging/journal.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return journal


def _sequence(journal: Mapping[str, Any]) -> int:
    return int(journal.get("sequence", -1))
