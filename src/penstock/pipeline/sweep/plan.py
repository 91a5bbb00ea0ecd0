"""The plan of a sweep: an experiment in every cell of a parameter grid, with each of many seeds.

Everything is checked here, before Spark starts. A run is identified by the values of all its parameters and its seed,
so that finished runs of an earlier invocation can be told from those still to do.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

import msgspec

from penstock import __version__
from penstock.lab import Experiment
from penstock.lab.frame.parameters import ParameterValue, parameter_values
from penstock.pipeline.errors import SweepError

__all__ = ["RUNS_MAX", "Run", "SweepPlan", "parse_seeds", "planned"]

RUNS_MAX: Final = 200_000
"""Maximum runs of one sweep; the driver holds their results, about a kilobyte each."""
_SEEDS: Final = re.compile(r"\s*(\d+)\s*(?:\.\.\s*(\d+)\s*)?")
_INTEGER_MAX: Final = 2**63 - 1
"""The largest integer that a column of the results can hold."""


@dataclass(slots=True, frozen=True)
class Run:
    """One run of the experiment: the index of a grid cell, and a seed."""

    cell: int
    seed: int


@dataclass(slots=True, frozen=True)
class SweepPlan:
    """An experiment, the grid to run it over, and the seeds for each cell of the grid."""

    experiment: Experiment
    grid: Mapping[str, tuple[ParameterValue, ...]]
    """The values of each swept parameter, in the order given."""
    cells: tuple[Mapping[str, ParameterValue], ...]
    """All parameters of each cell; the last key of the grid varies fastest."""
    seeds: tuple[int, ...]

    @property
    def runs(self) -> list[Run]:
        """All runs, cell by cell."""
        return [Run(cell, seed) for cell in range(len(self.cells)) for seed in self.seeds]

    @property
    def fixed(self) -> dict[str, ParameterValue]:
        """The parameters that are the same in every cell."""
        return {name: value for name, value in self.cells[0].items() if name not in self.grid}

    def swept(self, cell: int) -> dict[str, ParameterValue]:
        """The swept parameters of a cell."""
        return {name: self.cells[cell][name] for name in self.grid}

    def identity(self) -> dict[str, object]:
        """What identifies a sweep's results; adding seeds does not make it another sweep."""
        return {
            "penstock": __version__,
            "experiment": self.experiment.name,
            "parameters": self.fixed,
            "grid": {name: list(values) for name, values in self.grid.items()},
        }

    def default_folder(self) -> str:
        """A folder name that no other sweep has."""
        digest = hashlib.blake2b(msgspec.json.encode(self.identity(), order="sorted"), digest_size=4).hexdigest()
        return f"{self.experiment.name}-{digest}"


def planned(
    experiment: Experiment,
    *,
    grid: Iterable[str] = (),
    settings: Iterable[str] = (),
    seeds: str = "0",
    quick: bool = False,
) -> SweepPlan:
    """Plan the sweep described by texts such as ``key=a,b,c`` and ``1..100``."""
    settings, swept = list(settings), _parsed_grid(grid)
    for setting in settings:
        if setting.partition("=")[0].strip() in swept:
            raise SweepError(f"parameter {setting.partition('=')[0].strip()} is both set and swept")
    chosen = parse_seeds(seeds)
    cells = 1
    for values in swept.values():
        cells *= len(values)
    if cells * len(chosen) > RUNS_MAX:
        raise SweepError(f"{cells:,} cells with {len(chosen):,} seeds are more than {RUNS_MAX:,} runs")
    texts = [[f"{name}={value}" for value in values] for name, values in swept.items()]
    made = tuple(parameter_values(experiment.parameters, [*settings, *each], quick=quick) for each in product(*texts))
    _check_integers(made)
    columns = {name: tuple(dict.fromkeys(cell[name] for cell in made)) for name in swept}
    for name, column in columns.items():
        if len(column) < len(swept[name]):
            raise SweepError(f"the grid names a value of {name} twice: {', '.join(swept[name])}")
    return SweepPlan(experiment, columns, made, chosen)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse seeds such as ``1..100`` or ``1..10,20,42``; ranges include both ends."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        found = _SEEDS.fullmatch(part)
        if found is None:
            raise SweepError(f"seeds {part.strip()!r} are neither a number nor a range such as 1..100")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last > _INTEGER_MAX:
            raise SweepError(f"seeds {part.strip()!r} do not rise, or end above {_INTEGER_MAX:,}")
        if last - first + len(seeds) >= RUNS_MAX:
            raise SweepError(f"seeds {text!r} are more than {RUNS_MAX:,}")
        for seed in range(first, last + 1):
            if seed in seeds:
                raise SweepError(f"seed {seed} is named twice in {text!r}")
            seeds[seed] = None
    return tuple(seeds)


def _check_integers(cells: Iterable[Mapping[str, ParameterValue]]) -> None:
    for cell in cells:
        for name, value in cell.items():
            if isinstance(value, int) and abs(value) > _INTEGER_MAX:
                raise SweepError(f"parameter {name}: {value:,} does not fit a column of the results")


def _parsed_grid(grid: Iterable[str]) -> dict[str, list[str]]:
    swept: dict[str, list[str]] = {}
    for text in grid:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not values.strip():
            raise SweepError(f"grid {text!r} is not of the form key=a,b,c")
        if name in swept:
            raise SweepError(f"parameter {name} is swept twice; give all its values at once: {name}=a,b,c")
        swept[name] = values.split(",")
    return swept
