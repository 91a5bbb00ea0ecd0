"""Priorities and the hard limit, which the paper leaves to future work ([Ajil] section 7).

The utility of a class is the traffic its groups sent together, divided by the traffic they wanted to send. With a
fifth of the traffic exempt, the others can send (600 - 150) / (750 - 150) = 75 % of what they want, plus whatever
exceeds the limit. The mean of the groups' own utilities is higher, since small groups are seldom among the top ones; it
is reported as well. Under a hard limit, utility is the share sent of the traffic that is both wanted and allowed. The
hard limit is also run with 5 % of the announcements lost, independently at each receiver, and 97 % of the limit given
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.lab.ajil.charts import difference_panel, dress, traffic_panel
from penstock.lab.ajil.figures import COMMON, LIMIT, SOURCE, Run, Wave, aup_of, mean_of, over_seeds, overshoot, run_wave
from penstock.lab.ajil.world import Shape
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AJIL_HARD", "AJIL_PRIORITY"]

_SURGE: Final = (
    Parameter("before", 100, "epochs before the surge", quick=20, minimum=5),
    Parameter("surge", 350, "epochs of the surge", quick=60, minimum=20),
)
_START: Final = 5
"""The first epochs, in which nodes announce themselves."""


def _wave(context: Context, after: int = 0) -> Wave:
    first = context.integer("before")
    last = first + context.integer("surge")
    return Wave(first, last, last + after)


def _priority(context: Context) -> Mapping[str, float]:
    groups = context.integer("groups")
    exempt = int(groups * context.number("exempt"))
    aup = replace(aup_of(), priorities={f"group-{number}": 0.0 for number in range(exempt)})
    shape = Shape(context.integer("nodes"), groups)
    runs = over_seeds(
        context, f"{exempt} groups are exempt", lambda seed: run_wave(shape, aup, _wave(context), seed=seed)
    )
    context.figure(lambda figure: _draw_priority(figure, runs[0], exempt))
    return {
        "priority_high_utility": mean_of(runs, lambda each: _utility(each, slice(0, exempt))),
        "priority_low_utility": mean_of(runs, lambda each: _utility(each, slice(exempt, None))),
        "overshoot": mean_of(runs, overshoot),
        "priority_low_utility_by_group": mean_of(runs, lambda each: float(each.group_utility[exempt:].mean())),
    }


def _utility(run: Run, part: slice) -> float:
    """The traffic that the groups of a class sent, as a share of what they wanted."""
    return float(run.group_sent[part].sum() / run.group_wanted[part].sum())


def _hard(context: Context) -> Mapping[str, float]:
    shape = Shape(context.integer("nodes"), context.integer("groups"))
    wave = _wave(context, 20)
    sure = aup_of(mode="hard")
    cautious = aup_of(mode="hard", hard_share=0.97)
    losing = replace(shape, loss=context.number("loss"))
    runs = over_seeds(context, "nothing is lost", lambda seed: run_wave(shape, sure, wave, seed=seed))
    lossy = over_seeds(context, "announcements get lost", lambda seed: run_wave(losing, cautious, wave, seed=seed))
    context.figure(lambda figure: _draw_hard(figure, runs[0], lossy[0]))
    return {
        "hard_peak_over_limit": round(max(_peak(each) for each in runs), 5),
        "hard_utility": mean_of(runs, _possible),
        "hard_peak_over_limit_lossy": round(max(_peak(each) for each in lossy), 5),
        "hard_utility_lossy": mean_of(lossy, _possible),
    }


def _peak(run: Run) -> float:
    """The excess of the highest epoch over the limit; negative if below."""
    return float(run.traffic.max() - 1)


def _possible(run: Run) -> float:
    """The share sent of the traffic both wanted and allowed, once all nodes were known."""
    return float((run.traffic[_START:] / np.minimum(run.wanted[_START:], 1.0)).mean())


def _draw_priority(figure: Figure, run: Run, exempt: int) -> None:
    above, below = figure.subplots(2, 1)
    difference_panel(above, [("with Ajil", run.surge)], title=f"{exempt} groups are exempt: the limit is still kept")
    below.bar(np.arange(len(run.group_utility)), run.group_utility * 100, width=1.0, color="#4477aa", label="utility")
    below.axvline(exempt - 0.5, color="#117733", linestyle="--", linewidth=1, label="exempt groups on the left")
    below.axhline(_possible_for_others(run, exempt) * 100, color="#cc6677", linewidth=1, label="what others can have")
    below.set_ylim(0, 139)
    dress(below, "utility of each group in the surge", "group", "utility (%)")


def _possible_for_others(run: Run, exempt: int) -> float:
    """The share of their demand that the limit leaves to groups that are not exempt."""
    high, low = float(run.group_wanted[:exempt].sum()), float(run.group_wanted[exempt:].sum())
    return (LIMIT * len(run.surge) - high) / low


def _draw_hard(figure: Figure, run: Run, lossy: Run) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    traffic_panel(above, run, title="hard limit, no announcement lost", packet_bytes=100)
    traffic_panel(below, lossy, title="hard limit, 5 % of announcements lost, 97 % given out", packet_bytes=100)


AJIL_PRIORITY: Final = Experiment(
    name="ajil-priority",
    summary="groups with priority are exempt from slowdowns; the others keep the limit for them",
    source=f"{SOURCE.replace(' section 5', '')} section 7 (future work); beyond the paper",
    parameters=(
        *COMMON,
        *_SURGE,
        Parameter("exempt", 0.2, "share of groups that are exempt", minimum=0.0, maximum=0.9),
    ),
    published={
        "priority_high_utility": "1 (ours)",
        "priority_low_utility": "about 0.76 (ours)",
        "overshoot": "about 0.012 (ours)",
    },
    run=_priority,
)
AJIL_HARD: Final = Experiment(
    name="ajil-hard",
    summary="a hard limit is never exceeded, not in the first epoch of a surge either",
    source=f"{SOURCE.replace(' section 5', '')} section 7 (future work); beyond the paper",
    parameters=(*COMMON, *_SURGE, Parameter("loss", 0.05, "share of announcements lost", minimum=0.0, maximum=0.9)),
    published={},
    run=_hard,
)
