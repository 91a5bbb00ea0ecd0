"""Operations at once: random access compared with the wandering token, by load ([Token] section 5, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.token.figures import Shares, concurrency, random_access, ratio
from penstock.lab.token.walk import NOMINAL, OVERLOAD, SIZES, UNIT_MS, UNITS, VARIANT, constants_of, walked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TOKEN_CONCURRENCY"]

_START_UNITS: Final = 5_000
"""End of the start-up, in which all components that have had no token time out together."""
_BARS: Final = 8


def _run(context: Context) -> Mapping[str, float]:
    constants, end_ms = constants_of(context), context.integer("units") * UNIT_MS
    context.reporter.stage("random access, and the token", total=4)
    found: dict[str, Shares] = {}
    started: dict[str, Shares] = {}
    for size in SIZES:
        begins = random_access(size, min_ms=constants.min_ms, end_ms=end_ms, rng=context.rng)
        found[f"benchmark_n{size}"] = concurrency(begins, constants.op_ms, first_ms=0, last_ms=end_ms)
        context.reporter.advance()
    for size in SIZES:
        log = walked(context, size).log
        found[f"token_n{size}"] = concurrency(log.op_ms, constants.op_ms, first_ms=0, last_ms=end_ms)
        started[f"token_n{size}"] = concurrency(
            log.op_ms, constants.op_ms, first_ms=_START_UNITS * UNIT_MS, last_ms=end_ms
        )
        context.reporter.note(f"N = {size}: {len(log.op_ms):,} operations, {log.generated:,} tokens made")
        context.reporter.advance()
    context.figure(lambda figure: _draw(figure, found, constants.variant))
    overloaded = found[f"token_n{OVERLOAD}"]
    return {
        **{f"{name}_multi": round(ratio(shares[2:].sum(), shares.sum()), 6) for name, shares in found.items()},
        "decay_1": round(ratio(overloaded[2], overloaded[1]), 5),
        "decay_2": round(ratio(overloaded[3], overloaded[2]), 5),
        "over5_units": round(float(overloaded[6:].sum()) / UNIT_MS, 3),
        "over5_units_after_start": round(float(started[f"token_n{OVERLOAD}"][6:].sum()) / UNIT_MS, 3),
        **{f"busy_n{size}": round(1 - ratio(found[f"token_n{size}"][0], end_ms), 5) for size in SIZES},
    }


def _draw(figure: Figure, found: Mapping[str, Shares], variant: str) -> None:
    panels: list[Axes] = list(figure.subplots(1, 2, sharey=True))
    for axes, size in zip(panels, SIZES, strict=True):
        for place, (kind, label, colour) in enumerate(
            (("benchmark", "random access", "#bbbbbb"), ("token", f"token ({variant})", "#4477aa"))
        ):
            shares = found[f"{kind}_n{size}"]
            units = np.zeros(_BARS)
            units[: min(len(shares), _BARS)] = shares[:_BARS] / UNIT_MS
            axes.bar(np.arange(_BARS) + 0.4 * place - 0.2, units, width=0.4, label=label, color=colour)
        load = "nominal" if size == NOMINAL else "overload"
        axes.set_title(f"N = {size} ({load})", loc="left", fontsize=10)
        axes.set(yscale="log", xlabel="operations at once", xticks=range(_BARS))
        axes.set_ylim(bottom=0.5)
        axes.grid(visible=True, axis="y", alpha=0.3)
    total = float(found[f"token_n{OVERLOAD}"].sum()) / UNIT_MS
    panels[1].plot([5.6, 7.6], [8e-6 * total] * 2, color="#117733", linewidth=2, label="published: more than 5, in all")
    for axes, (random, token) in zip(panels, ((0.15, 0.005), (0.40, 0.10)), strict=True):
        axes.text(
            0.98,
            0.97,
            f"more than one, published:\nrandom {random:.0%}, token {token:.1%}",
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=9,
            color="#117733",
        )
    panels[0].set_ylabel("time (units)")
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("Operations at once on the shared resource (after figure 2)")


TOKEN_CONCURRENCY: Final = Experiment(
    name="token-concurrency",
    summary="time with more than one operation at once: random access, and the wandering token",
    source="[Token] section 5, figure 2",
    parameters=(VARIANT, UNITS),
    published={
        "benchmark_n150_multi": "> 0.15",
        "benchmark_n300_multi": 0.40,
        "token_n150_multi": "< 0.005",
        "token_n300_multi": 0.10,
        "over5_units": 8,
    },
    run=_run,
)
