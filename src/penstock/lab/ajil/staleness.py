"""How fewer reports slow Ajil down, and how it does with WebSphere's groups ([Ajil] sections 5.1 and 5.4).

Figure 4. Ratios are of c = 0.001 over c = 0.01. Recovery is measured in a separate network with many nodes and large
packets: nodes that see much of the traffic themselves need not wait for reports.

A timeout shorter than the gap between two reports disables control altogether. In the recovery runs, and with 6,600
groups (one report on each in 165 epochs, at c = 0.01), the timeout is ten expected gaps. With 6,600 groups the surge
starts after four gaps, so that nodes have heard of all groups, as in a network that has run for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.lab.ajil.charts import difference_panel, dress
from penstock.lab.ajil.figures import (
    BASE,
    COMMON,
    SOURCE,
    Run,
    Wave,
    aup_of,
    mean_of,
    over_seeds,
    overshoot,
    recovery_epochs,
    run_wave,
    settle_epochs,
)
from penstock.lab.ajil.world import Shape
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AJIL_SCALE", "AJIL_STALENESS"]

_FRACTIONS: Final = (0.01, 0.001)
_GAPS: Final = 10
"""The timeout of reports where they are rare, in expected gaps between two reports on a group."""


def _staleness(context: Context) -> Mapping[str, float]:
    before, surge, after = (context.integer(each) for each in ("before", "surge", "after"))
    wave = Wave(before, before + surge, before + surge + 10)
    shape = Shape(context.integer("nodes"), context.integer("groups"))
    often, seldom = (
        over_seeds(
            context,
            f"c = {c:g}",
            lambda seed, c=c: run_wave(shape, aup_of(report_fraction=c), wave, seed=seed),  # type: ignore[misc]
        )
        for c in _FRACTIONS
    )
    wide = Shape(context.integer("recovery_nodes"), context.integer("groups"), packet_bytes=1000)
    calm = Wave(before, before + surge, before + surge + after)
    fast, slow = (
        [_recovering(context, wide, calm, c, number) for number in range(_recoveries(context))] for c in _FRACTIONS
    )
    context.figure(lambda figure: _draw(figure, (often[0], seldom[0]), (fast[0], slow[0])))
    return {
        "overshoot_c0.01": mean_of(often, overshoot),
        "overshoot_c0.001": mean_of(seldom, overshoot),
        "settle_ratio": round(mean_of(seldom, settle_epochs) / mean_of(often, settle_epochs), 2),
        "recovery_ratio": round(mean_of(slow, recovery_epochs) / max(mean_of(fast, recovery_epochs), 1.0), 2),
        "settle_epochs_c0.01": mean_of(often, settle_epochs, 2),
        "settle_epochs_c0.001": mean_of(seldom, settle_epochs, 2),
        "recovery_epochs_c0.01": mean_of(fast, recovery_epochs, 2),
        "recovery_epochs_c0.001": mean_of(slow, recovery_epochs, 2),
    }


def _recoveries(context: Context) -> int:
    return min(context.integer("seeds"), context.integer("recovery_seeds"))


def _recovering(context: Context, shape: Shape, wave: Wave, c: float, number: int) -> Run:
    context.reporter.stage(f"recovery with c = {c:g}, run {number + 1}", total=1)
    aup = aup_of(report_fraction=c, timeout_epochs=int(_GAPS * _gap_epochs(shape, c)))
    run = run_wave(shape, aup, wave, seed=context.seed * 1000 + number)
    context.reporter.advance()
    return run


def _gap_epochs(shape: Shape, c: float) -> float:
    """Expected epochs between two reports on a group, before the surge."""
    return shape.groups / (c * BASE / shape.packet_bytes)


def _scale(context: Context) -> Mapping[str, float]:
    shape = Shape(context.integer("nodes"), context.integer("groups"))
    runs = {c: over_seeds(context, f"c = {c:g}", partial(_scaled, context, shape, c)) for c in (0.01, 0.1)}
    context.figure(lambda figure: _draw_scale(figure, {c: each[0] for c, each in runs.items()}))
    return {
        "ms_per_node_epoch": mean_of(runs[0.01], lambda each: each.node_ms),
        "overshoot": mean_of(runs[0.01], overshoot),
        "settle_epochs": mean_of(runs[0.01], settle_epochs, 2),
        "ms_per_node_epoch_c0.1": mean_of(runs[0.1], lambda each: each.node_ms),
        "overshoot_c0.1": mean_of(runs[0.1], overshoot),
        "settle_epochs_c0.1": mean_of(runs[0.1], settle_epochs, 2),
    }


def _scaled(context: Context, shape: Shape, c: float, seed: int) -> Run:
    gap = _gap_epochs(shape, c)
    first = int(context.number("before_gaps") * gap)
    wave = Wave(first, first + context.integer("surge"), first + context.integer("surge"))
    aup = aup_of(report_fraction=c, timeout_epochs=max(int(_GAPS * gap), 1))
    return run_wave(shape, aup, wave, seed=seed)


def _draw(figure: Figure, surges: tuple[Run, Run], recoveries: tuple[Run, Run]) -> None:
    left, right = figure.subplots(1, 2)
    named = [(f"c = {c:g}", run.surge) for c, run in zip(_FRACTIONS, surges, strict=True)]
    difference_panel(left, named, title="Figure 4, left: over the limit")
    for c, run in zip(_FRACTIONS, recoveries, strict=True):
        after = run.utility[run.wave.last - 5 : run.wave.last + 40]
        right.plot(np.arange(-5, len(after) - 5), after * 100, linewidth=1.2, label=f"c = {c:g}")
    right.axvline(0, color="#117733", linestyle="--", linewidth=1, label="the surge ends")
    dress(right, "Figure 4, right: recovery", "epochs since the surge ended (s)", "utility (%)")


def _draw_scale(figure: Figure, runs: Mapping[float, Run]) -> None:
    named = [(f"c = {c:g}", run.surge) for c, run in runs.items()]
    difference_panel(figure.add_subplot(), named, title="6,600 groups of about 10 members, as in the trace")


AJIL_STALENESS: Final = Experiment(
    name="ajil-staleness",
    summary="with a tenth of the reports the limit is exceeded by more, and for longer",
    source=f"{SOURCE}.4, figure 4",
    parameters=(
        *COMMON,
        Parameter("before", 350, "epochs before the surge", quick=60, minimum=5),
        Parameter("surge", 350, "epochs of the surge", quick=60, minimum=20),
        Parameter("after", 100, "epochs after it, where recovery is measured", quick=40, minimum=10),
        Parameter("recovery_nodes", 1000, "nodes, where recovery is measured", quick=80, minimum=4),
        Parameter("recovery_seeds", 3, "runs, where recovery is measured", quick=1, minimum=1),
    ),
    published={"settle_ratio": "slower with c = 0.001", "recovery_ratio": "slower with c = 0.001"},
    run=_staleness,
)
AJIL_SCALE: Final = Experiment(
    name="ajil-scale",
    summary="6,600 groups averaging 10 members, as in a WebSphere trace",
    source=f"{SOURCE}.1",
    parameters=(
        Parameter("seeds", 10, "runs, each of its own seed; figures are means", quick=1, minimum=1, maximum=100),
        Parameter("nodes", 660, "nodes", quick=66, minimum=4, maximum=5000),
        Parameter("groups", 6600, "multicast groups", quick=330, minimum=4, maximum=20_000),
        Parameter("before_gaps", 4.0, "expected gaps between two reports on a group, before the surge", minimum=1.0),
        Parameter("surge", 200, "epochs of the surge", quick=30, minimum=20),
    ),
    published={"settle_epochs": "about 83 (ours)", "settle_epochs_c0.1": "about 12 (ours)"},
    run=_scale,
)
