"""The frame of every experiment: declared parameters and published figures in, measured figures and a chart out.

An experiment is a value that holds a function. Its context provides everything it needs: the seed and a random
generator, the parameters, a progress reporter, and a way to draw. The frame checks the parameters, runs the experiment
and records the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.measuring import collector_in_leisure
from penstock.lab.frame.parameters import Parameter, ParameterValue, parameter_values
from penstock.model.errors import MisuseError
from penstock.model.reporting import QuietReporter, Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Context", "Experiment", "Parameter", "Result", "run_experiment"]

Published: TypeAlias = Mapping[str, float | str]


@dataclass(slots=True)
class Context:
    """Everything that an experiment runs with."""

    seed: int
    parameters: Mapping[str, ParameterValue]
    reporter: Reporter
    figure_path: Path
    """Where to save the chart."""
    rng: Random = field(init=False)
    """The source of all randomness."""
    drawn: Path | None = field(init=False, default=None)
    """Where the chart was saved; None before that."""

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)

    def integer(self, name: str) -> int:
        """The value of a parameter that was declared as an integer."""
        value = self.parameters[name]
        assert type(value) is int, f"parameter {name} is no integer"
        return value

    def number(self, name: str) -> float:
        """The value of a parameter that was declared as a number."""
        value = self.parameters[name]
        assert type(value) is float, f"parameter {name} is no number"
        return value

    def text(self, name: str) -> str:
        """The value of a parameter that was declared as text."""
        value = self.parameters[name]
        assert type(value) is str, f"parameter {name} is no text"
        return value

    def figure(self, draw: Callable[[Figure], None]) -> None:
        """Draw and save the chart; without matplotlib, only note how to install it and keep the measurements."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            self.reporter.note("no chart: matplotlib is missing; install it with: pip install 'penstock[lab]'")
            return
        # A figure made without pyplot has no window and no global state, and draws with Agg.
        figure = Figure(figsize=(9, 6), dpi=120, layout="constrained")
        draw(figure)
        try:
            self.figure_path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(self.figure_path)
        except OSError as error:
            raise MisuseError(f"cannot write the chart to {self.figure_path}: {error.strerror}") from None
        self.drawn = self.figure_path


@dataclass(slots=True, frozen=True)
class Experiment:
    """One experiment of a paper, or one of our own."""

    name: str
    """The name in ``penstock lab run NAME``."""
    summary: str
    """What it shows, in one line."""
    source: str
    """The paper and section, or the document, that its published figures come from."""
    parameters: tuple[Parameter, ...]
    published: Published
    """The source's figures, by name of the metric."""
    run: Callable[[Context], Mapping[str, float]]
    """Measures, and returns the metrics by name, in the order in which to show them."""


@dataclass(slots=True, frozen=True)
class Result:
    """The result of running an experiment."""

    experiment: str
    seed: int
    parameters: Mapping[str, ParameterValue]
    published: Published
    measured: Mapping[str, float]
    figure: str | None

    def to_json(self) -> str:
        """Serialise as indented JSON, with the fields in this order."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def run_experiment(
    experiment: Experiment,
    settings: Iterable[str] = (),
    *,
    seed: int = 0,
    quick: bool = False,
    figures: Path = Path("figures"),
    reporter: Reporter | None = None,
) -> Result:
    """Run an experiment with ``key=value`` settings."""
    parameters = parameter_values(experiment.parameters, settings, quick=quick)
    if seed < 0:
        raise ParameterError(f"the seed is {seed}, but must not be negative")
    context = Context(seed, parameters, reporter or QuietReporter(), figures / f"{experiment.name}.png")
    with collector_in_leisure():
        measured = dict(experiment.run(context))
    for metric, value in measured.items():
        assert math.isfinite(value), f"{experiment.name} measured {metric} = {value}"
    drawn = None if context.drawn is None else str(context.drawn)
    return Result(experiment.name, seed, parameters, dict(experiment.published), measured, drawn)
