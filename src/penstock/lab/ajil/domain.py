"""How the size of the reaction domain affects oscillation and fairness ([Ajil] sections 5.3 and 5.5).

Figures 3 and 5. ``sd_a_b`` is the standard deviation of the traffic in the surge, as a share of the limit, from its
tenth epoch on; ``damping_1_1`` is the deviation of the first 50 epochs divided by that of the last 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.lab.ajil.charts import difference_panel, utility_panel
from penstock.lab.ajil.figures import COMMON, SOURCE, Run, Wave, aup_of, mean_of, over_seeds, run_wave, spread
from penstock.lab.ajil.world import Shape
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AJIL_DOMAIN", "AJIL_FAIRNESS", "AJIL_POLICY"]

_DOMAINS: Final = ((1.0, 1.0), (1.0, 0.5), (0.5, 0.5), (0.5, 0.25))
_SURGE: Final = (
    Parameter("before", 100, "epochs before the surge", quick=20, minimum=5),
    Parameter("surge", 350, "epochs of the surge", quick=60, minimum=20),
)
_START: Final = 10


def _runs(context: Context, title: str, **changes: float | str) -> list[Run]:
    first = context.integer("before")
    wave = Wave(first, first + context.integer("surge"), first + context.integer("surge"))
    shape = Shape(context.integer("nodes"), context.integer("groups"))
    return over_seeds(context, title, lambda seed: run_wave(shape, aup_of(**changes), wave, seed=seed))


def _domain(context: Context) -> Mapping[str, float]:
    by_domain = {pair: _runs(context, f"domain {pair}", alpha=pair[0], beta=pair[1]) for pair in _DOMAINS}
    context.figure(lambda figure: _draw_domains(figure, {pair: runs[0] for pair, runs in by_domain.items()}))
    measured = {
        f"sd_{pair[0]:g}_{pair[1]:g}": mean_of(runs, lambda each: spread(each.surge[_START:]))
        for pair, runs in by_domain.items()
    }
    # Means over all runs: a single run may happen to end very quietly.
    full = by_domain[1.0, 1.0]
    early, late = (
        mean_of(full, lambda each: spread(each.surge[:50])),
        mean_of(full, lambda each: spread(each.surge[-100:])),
    )
    return {**measured, "damping_1_1": round(early / late, 3)}


def _fairness(context: Context) -> Mapping[str, float]:
    full = _runs(context, "the whole network reacts", alpha=1.0, beta=1.0)
    eighth = _runs(context, "an eighth of it reacts", alpha=0.5, beta=0.25)
    context.figure(lambda figure: _draw_utilities(figure, full[0], eighth[0], ("1, 1", "0.5, 0.25")))
    return {
        f"{what}_variance_{name}": mean_of(runs, lambda each, what=what: _variance(each, what), 7)  # type: ignore[misc]
        for what in ("group", "channel")
        for name, runs in (("full", full), ("eighth", eighth))
    }


def _policy(context: Context) -> Mapping[str, float]:
    naive = _runs(context, "naive: quota zero", policy="naive")
    fraction = _runs(context, "global percentage", policy="global")
    context.figure(lambda figure: _draw_policies(figure, naive[0], fraction[0]))

    def ratio(what: str) -> float:
        return mean_of(naive, lambda each: _variance(each, what)) / mean_of(
            fraction, lambda each: _variance(each, what)
        )

    swing = mean_of(naive, lambda each: spread(each.surge[_START:])) / mean_of(
        fraction, lambda each: spread(each.surge[_START:])
    )
    group, channel = ratio("group"), ratio("channel")
    return {
        "naive_sd_ratio": round(swing, 2),
        "naive_variance_ratio": round(min(group, channel), 3),
        "naive_group_variance_ratio": round(group, 3),
        "naive_channel_variance_ratio": round(channel, 3),
    }


def _variance(run: Run, what: str) -> float:
    return float((run.group_utility if what == "group" else run.channel_utility).var())


def _draw_domains(figure: Figure, runs: Mapping[tuple[float, float], Run]) -> None:
    figure.set_size_inches(9, 9)
    panels = figure.subplots(len(runs), 1, sharex=True, sharey=True)
    for axes, ((alpha, beta), run) in zip(panels, runs.items(), strict=True):
        title = f"Figure 3: domain ({alpha:g}, {beta:g})"
        difference_panel(axes, [("with Ajil", run.surge)], title=title)


def _draw_utilities(figure: Figure, left: Run, right: Run, names: tuple[str, str]) -> None:
    for axes, run, name in zip(figure.subplots(1, 2, sharey=True), (left, right), names, strict=True):
        utility_panel(axes, run, title=f"Figure 5: utilities in the surge, domain ({name})")


def _draw_policies(figure: Figure, naive: Run, fraction: Run) -> None:
    panels = figure.subplots(2, 2)
    for row, (run, name) in zip(panels, ((naive, "#1, naive"), (fraction, "#2, global percentage")), strict=True):
        difference_panel(row[0], [("with Ajil", run.surge)], title=f"Figure 6: policy {name}")
        utility_panel(row[1], run, title=f"Figure 6: utilities, policy {name}")


AJIL_DOMAIN: Final = Experiment(
    name="ajil-domain",
    summary="traffic oscillates less the smaller the reaction domain is, and less with time",
    source=f"{SOURCE}.3, figure 3",
    parameters=(*COMMON, *_SURGE),
    published={"sd_1_1": "largest", "sd_0.5_0.25": "smallest", "damping_1_1": "damps with time"},
    run=_domain,
)
AJIL_FAIRNESS: Final = Experiment(
    name="ajil-fairness",
    summary="how evenly groups and channels are served when all react, or an eighth of them",
    source=f"{SOURCE}.5, figure 5",
    parameters=(*COMMON, *_SURGE),
    published={"group_variance_full": "much lower than with an eighth"},
    run=_fairness,
)
AJIL_POLICY: Final = Experiment(
    name="ajil-policy",
    summary="the naive policy, which stops every sender in the domain, compared with the global percentage",
    source=f"{SOURCE}.6, figure 6",
    parameters=(*COMMON, *_SURGE),
    published={"naive_sd_ratio": "extreme fluctuation", "naive_variance_ratio": "much more variant"},
    run=_policy,
)
