"""The work of a sweep's Spark task, and how many runs each task gets.

A Python task costs Spark some 60 ms of overhead, so a task should last a second or two; and there should be at least
four per core, so that no core waits long for the last one. Nobody knows in advance how long a run takes, so a few runs,
from as many cells as there is room for, go first as tasks of their own.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from penstock.lab import Context, Experiment
from penstock.lab.frame.parameters import ParameterValue
from penstock.model.reporting import QuietReporter
from penstock.pipeline.sweep.plan import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

__all__ = ["Outcome", "chunked", "outcomes", "probes"]

TASK_S: Final = 2.0
TASKS_PER_SLOT_MIN: Final = 4
TASKS_MAX: Final = 10_000
_MESSAGE_CHARACTERS: Final = 2_000


@dataclass(slots=True, frozen=True)
class Outcome:
    """The outcome of a run: measurements, or the reason for having none."""

    run: Run
    measured: Mapping[str, float]
    failure: str | None
    seconds: float


class _TaskContext(Context):
    """The context of one run among many: its chart is not drawn."""

    __slots__ = ()

    def figure(self, draw: Callable[[Figure], None]) -> None:
        """Draw nothing."""


def outcomes(
    experiment: Experiment, cells: Sequence[Mapping[str, ParameterValue]], runs: Iterable[Run]
) -> Iterator[Outcome]:
    """Execute the runs one after the other; a failed run does not stop the next."""
    for run in runs:
        started = perf_counter()
        measured, failure = _tried(experiment, cells[run.cell], run.seed)
        yield Outcome(run, measured, failure, perf_counter() - started)


def _tried(
    experiment: Experiment, parameters: Mapping[str, ParameterValue], seed: int
) -> tuple[dict[str, float], str | None]:
    context = _TaskContext(seed, dict(parameters), QuietReporter(), Path())
    try:
        measured = {metric: float(value) for metric, value in experiment.run(context).items()}
    except Exception as error:  # noqa: BLE001  (whatever an experiment raises is the outcome of this run)
        return {}, _told(error)
    endless = [metric for metric, value in measured.items() if not math.isfinite(value)]
    if endless or not measured:
        return {}, f"measured no finite {endless[0]}" if endless else "measured nothing"
    return measured, None


def _told(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}"[:_MESSAGE_CHARACTERS] + place


def probes(runs: Sequence[Run], slots: int) -> list[Run]:
    """Choose the runs that go first to show how long others will take: one per cell, if there are not too many."""
    first_of_cell: dict[int, Run] = {}
    for run in runs:
        first_of_cell.setdefault(run.cell, run)
    firsts = list(first_of_cell.values())
    allowed = TASKS_PER_SLOT_MIN * slots
    if len(firsts) <= allowed:
        others = [run for run in runs if run is not first_of_cell[run.cell]]
        return [*firsts, *others[: max(0, slots - len(firsts))]]
    return [firsts[place * len(firsts) // allowed] for place in range(allowed)]


def chunked(runs: Sequence[Run], known_s: Mapping[int, float], slots: int) -> list[list[Run]]:
    """Divide runs into tasks of equal expected length, given the known seconds per run of each cell."""
    if not runs:
        return []
    typical_s = sum(known_s.values()) / len(known_s) if known_s else TASK_S
    expected_s = [known_s.get(run.cell, typical_s) for run in runs]
    count = max(round(sum(expected_s) / TASK_S), TASKS_PER_SLOT_MIN * slots)
    count = min(count, len(runs), TASKS_MAX)
    share_s, passed_s = sum(expected_s) / count, 0.0
    tasks: list[list[Run]] = []
    chunk: list[Run] = []
    for run, seconds in zip(runs, expected_s, strict=True):
        chunk.append(run)
        passed_s += seconds
        # Measured from the beginning, so that a task's excess is taken from the next.
        if passed_s >= share_s * (len(tasks) + 1) - 1e-9:
            tasks.append(chunk)
            chunk = []
    return [*tasks, chunk] if chunk else tasks
