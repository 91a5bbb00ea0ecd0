"""The archive of ``archive-kill9`` as a process of its own: started, watched from outside, killed in a chosen phase.

Everything is seen by what is on the disk, so that the archive needs to know nothing of being watched.
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
"""A kill at the start comes within this time: Spark itself takes about eight seconds."""
_BATCH_S_MAX: Final = 1.5
_LOOK_S: Final = 0.02
_LOOK_CLOSELY_S: Final = 0.001
"""Once there is a batch: it becomes visible, and is merged, within some milliseconds."""


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


class ArchiveDriver(Kill9Process):
    """The archive's process, one life after the other."""

    def __init__(self, lake: Path, options: Sequence[str], *, command: Sequence[str] = _COMMAND) -> None:
        super().__init__([*command, "--lake", str(lake), *options], lake.with_name(f"{lake.name}.log"))
        self.lake: Final = lake
        self._birth = Birth.of(lake)

    def start(self, *more: str) -> None:
        """Begin another life."""
        self._birth = Birth.of(self.lake)
        super().start(*more)

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
