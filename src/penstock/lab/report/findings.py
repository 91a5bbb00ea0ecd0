"""The findings of an experiment, however it was run: once, over many seeds, or some time ago.

A folder of results has for each entry ``KEY.json`` (one run, or a sweep over seeds) and ``KEY.png`` (the chart).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from penstock.lab.frame.experiment import Experiment, Result, run_experiment
from penstock.lab.frame.parameters import ParameterValue
from penstock.lab.report.chapters import Entry
from penstock.model.errors import MisuseError
from penstock.model.reporting import Reporter

__all__ = ["Finding", "Measure", "made_finding", "read_finding", "swept_finding"]


@dataclass(slots=True, frozen=True)
class Measure:
    """A figure: of one run, or the mean of several with its 95 % interval."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(slots=True, frozen=True)
class Finding:
    """The result of one entry of the report."""

    entry: Entry
    experiment: Experiment
    measures: Mapping[str, Measure]
    seeds: str
    """The seeds that were used, in words."""
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    figure: bytes | None = None
    """The chart, as PNG."""

    @property
    def command(self) -> str:
        """The command that reproduces the finding."""
        settings = "".join(f" --set {each}" for each in self.entry.settings)
        return f"penstock lab run {self.experiment.name} --seed 1{settings}"

    @property
    def means(self) -> dict[str, float]:
        """The figures without their intervals."""
        return {metric: each.mean for metric, each in self.measures.items()}

    @property
    def is_small(self) -> bool:
        """Whether the finding is of a quick run."""
        chosen = {each.partition("=")[0] for each in self.entry.settings}
        free = [each for each in self.experiment.parameters if each.name not in chosen]
        return any(
            self.parameters.get(each.name, each.default) != each.default for each in free if each.quick is not None
        )

    def verdicts(self) -> dict[str, bool]:
        """For each measured metric with a band: whether it lies within. Small runs are judged only by laws.

        Other bands are for full runs: a shorter run has not settled, and a smaller one depends more on chance.
        """
        means = self.means
        bands = {metric: band for metric, band in self.entry.bands.items() if band.is_law or not self.is_small}
        found = {metric: band.has(means[metric], means) for metric, band in bands.items() if metric in means}
        return {metric: is_within for metric, is_within in found.items() if is_within is not None}


def made_finding(
    entry: Entry, experiment: Experiment, folder: Path, *, seed: int, quick: bool, reporter: Reporter
) -> Finding:
    """Run an experiment once, and keep its result in the folder."""
    result = run_experiment(experiment, entry.settings, seed=seed, quick=quick, figures=folder, reporter=reporter)
    drawn = folder / f"{experiment.name}.png"
    if entry.key != experiment.name and drawn.exists() and result.figure is not None:
        drawn = drawn.replace(folder / f"{entry.key}.png")
    _write(folder / f"{entry.key}.json", result.to_json())
    return _of_result(entry, experiment, result, drawn)


def swept_finding(
    entry: Entry, experiment: Experiment, folder: Path, estimates: Mapping[str, Any], *, seeds: str
) -> Finding:
    """Keep the result of a sweep: estimates with ``mean``, ``low`` and ``high``; the chart is of the run before."""
    measures = {metric: Measure(each.mean, each.low, each.high) for metric, each in estimates.items()}
    _write(folder / f"{entry.key}.sweep.json", msgspec.json.encode({"seeds": seeds, "measures": measures}).decode())
    return Finding(entry, experiment, measures, seeds, figure=_picture(folder / f"{entry.key}.png"))


def read_finding(entry: Entry, experiment: Experiment, folder: Path, *, swept: bool = True) -> Finding | None:
    """Read the result of an earlier run: a sweep if there is one and ``swept``, else a single run; None without any."""
    sweep, single = folder / f"{entry.key}.sweep.json", folder / f"{entry.key}.json"
    picture = folder / f"{entry.key}.png"
    try:
        if swept and sweep.exists():
            told = msgspec.json.decode(sweep.read_bytes(), type=_Swept)
            return Finding(entry, experiment, told.measures, told.seeds, figure=_picture(picture))
        if single.exists():
            return _of_result(entry, experiment, msgspec.json.decode(single.read_bytes(), type=Result), picture)
    except (msgspec.DecodeError, OSError) as error:
        raise MisuseError(f"cannot read the result of {experiment.name} in {folder}: {error}") from None
    return None


class _Swept(msgspec.Struct):
    seeds: str
    measures: dict[str, Measure]


def _of_result(entry: Entry, experiment: Experiment, result: Result, picture: Path) -> Finding:
    measures = {metric: Measure(value) for metric, value in result.measured.items()}
    return Finding(entry, experiment, measures, f"seed {result.seed}", result.parameters, _picture(picture))


def _picture(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise MisuseError(f"cannot write the result to {path}: {error.strerror}") from None
