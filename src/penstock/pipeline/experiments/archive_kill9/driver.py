"""Runs the archive of ``archive-kill9`` as a separate process: starts it, watches it, and kills it in a chosen phase.

The phase is inferred from the files on disk, so the archive need not know that it is watched.
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

from penstock.lab.delivery.kill9.process import Kill9Process
from penstock.model.errors import PenstockError
from penstock.model.lake_tables import PUBLICATIONS

__all__ = ["PHASES", "ArchiveDriver", "Birth", "DriverError", "Phase", "is_in_phase"]

Phase: TypeAlias = Literal["start", "batch", "staging", "publishing", "merging"]

PHASES: Final[tuple[Phase, ...]] = ("start", "batch", "staging", "publishing", "merging")
"""Before any batch; while a batch runs; when its first file is written; while its files become visible; while files are
merged."""

_COMMAND: Final = (sys.executable, "-m", "penstock.pipeline.archive")
_START_S_MAX: Final = 10.0
"""Longest delay before a kill at the start: Spark itself takes about eight seconds."""
_BATCH_S_MAX: Final = 1.5
_LOOK_S: Final = 0.02
_LOOK_CLOSELY_S: Final = 0.001
"""Polling interval once a batch runs: it becomes visible, and is merged, within milliseconds."""


class DriverError(PenstockError):
    """The archive makes no progress."""


@dataclass(slots=True, frozen=True)
class Birth:
    """State that earlier processes left on disk when this one started, which says nothing about this one."""

    offset: int
    """The newest batch in Spark's checkpoint."""
    sequence: int
    """Sequence number of the journal."""
    at_ns: int
    """Start time, by the clock that dates files."""

    @classmethod
    def of(cls, lake: Path) -> Birth:
        """The state for a process that starts now."""
        return cls(_newest_offset(lake), _sequence(_journal(lake)), time.time_ns())


class ArchiveDriver(Kill9Process):
    """The archive's process, restarted after every kill."""

    def __init__(self, lake: Path, options: Sequence[str], *, command: Sequence[str] = _COMMAND) -> None:
        super().__init__([*command, "--lake", str(lake), *options], lake.with_name(f"{lake.name}.log"))
        self.lake: Final = lake
        self._birth = Birth.of(lake)

    def start(self, *more: str) -> None:
        """Start the process again."""
        self._birth = Birth.of(self.lake)
        super().start(*more)

    async def kill_in(self, phase: Phase, rng: Random, *, patience_s: float) -> bool:
        """Kill it in a phase of its work; returns False if it ended by itself or took too long to get there."""
        deadline_s = time.monotonic() + (rng.uniform(0.0, _START_S_MAX) if phase == "start" else patience_s)
        hit = at_work = False
        while self.is_running and time.monotonic() < deadline_s and not hit:
            await asyncio.sleep(_LOOK_CLOSELY_S if at_work else _LOOK_S)
            at_work = at_work or is_in_phase("batch", self.lake, self._birth)
            hit = phase != "start" and is_in_phase(phase, self.lake, self._birth)
        if phase == "batch" and hit:
            await asyncio.sleep(rng.uniform(0.0, _BATCH_S_MAX))
        hit = (hit or phase == "start") and self.is_running
        # Kill either the whole process tree, as when a machine stops, or only the driver, which its Java has to notice.
        self.kill(alone=rng.random() < 0.5)
        return hit


def is_in_phase(phase: Phase, lake: Path, birth: Birth) -> bool:
    """Whether the files on disk show that the process is in the phase."""
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
