"""A square surge and a ramp over the limit, with Ajil and without ([Ajil] section 5.2, figure 2).

``first_epoch_overshoot`` is the excess in the first epoch of the surge, which a soft limit cannot foresee.
``utility_below_limit`` is the lowest utility of any epoch before the surge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.lab.ajil.charts import traffic_panel
from penstock.lab.ajil.figures import (
    COMMON,
    LIMIT,
    SOURCE,
    Run,
    Wave,
    aup_of,
    mean_of,
    over_seeds,
    overshoot,
    run_wave,
    settle_epochs,
)
from penstock.lab.ajil.world import Shape
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AJIL_RAMP", "AJIL_SQUARE"]

_PACKET_BYTES: Final = 100


def _shape(context: Context) -> Shape:
    return Shape(context.integer("nodes"), context.integer("groups"), packet_bytes=_PACKET_BYTES)


def _square(context: Context) -> Mapping[str, float]:
    first, length = context.integer("before"), context.integer("surge")
    wave = Wave(first, first + length, first + length + context.integer("after"))
    shape = _shape(context)
    runs = over_seeds(context, "square surge", lambda seed: run_wave(shape, aup_of(), wave, seed=seed))
    context.figure(lambda figure: _draw(figure, runs[0], "Figure 2, right: a square surge"))
    return {
        "raw_overshoot": mean_of(runs, _raw),
        "overshoot": mean_of(runs, overshoot),
        "settle_epochs": mean_of(runs, settle_epochs, 2),
        "first_epoch_overshoot": mean_of(runs, lambda each: float(each.surge[0])),
        "utility_below_limit": mean_of(runs, lambda each: float(each.utility[: each.wave.first].min()), 9),
        "report_overhead": mean_of(runs, lambda each: float(each.reports.sum()) / each.packets),
        "seconds_per_run": mean_of(runs, lambda each: each.node_ms * shape.nodes * wave.epochs / 1000, 2),
    }


def _ramp(context: Context) -> Mapping[str, float]:
    first, length = context.integer("before"), context.integer("surge")
    wave = Wave(0, first + length, first + length, peak=1.13 * LIMIT, ramp=True)
    runs = over_seeds(context, "ramp", lambda seed: run_wave(_shape(context), aup_of(), wave, seed=seed))
    context.figure(lambda figure: _draw(figure, runs[0], "Figure 2, left: a ramp to 13 % over the limit"))
    return {
        "overshoot": mean_of(runs, lambda each: float(np.maximum(each.traffic[first:] - 1, 0).mean())),
        "raw_overshoot": mean_of(runs, lambda each: float(each.wanted[-1] - 1)),
    }


def _raw(run: Run) -> float:
    return float((run.wanted[run.wave.first : run.wave.last] - 1).mean())


def _draw(figure: Figure, run: Run, title: str) -> None:
    traffic_panel(figure.add_subplot(), run, title=title, packet_bytes=_PACKET_BYTES)


AJIL_SQUARE: Final = Experiment(
    name="ajil-square",
    summary="a square surge to 25 % over the limit: sharply reduced, and nobody is touched below the limit",
    source=f"{SOURCE}.2, figure 2 on the right",
    parameters=(
        *COMMON,
        Parameter("before", 350, "epochs before the surge", quick=30, minimum=5),
        Parameter("surge", 350, "epochs of the surge", quick=60, minimum=20),
        Parameter("after", 300, "epochs after it", quick=20, minimum=1),
    ),
    published={
        "raw_overshoot": "over 0.2",
        "overshoot": "sharply reduced",
        "utility_below_limit": 1,
        "report_overhead": 0.01,
    },
    run=_square,
)
AJIL_RAMP: Final = Experiment(
    name="ajil-ramp",
    summary="traffic that grows slowly to 13 % over the limit: Ajil keeps it near the limit",
    source=f"{SOURCE}.2, figure 2 on the left",
    parameters=(
        *COMMON,
        Parameter("before", 600, "epochs before those that are judged", quick=60, minimum=5),
        Parameter("surge", 400, "epochs that are judged", quick=40, minimum=20),
    ),
    published={"overshoot": "near the limit"},
    run=_ramp,
)
