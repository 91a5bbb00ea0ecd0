"""How long components wait between two operations, nominal and overloaded ([Token] section 5, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.token.figures import intervals
from penstock.lab.token.walk import SIZES, UNITS, VARIANT, constants_of, walked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TOKEN_INTERVALS"]

_BINS: Final = np.arange(1.0, 6.01, 0.1)


def _run(context: Context) -> Mapping[str, float]:
    constants = constants_of(context)
    context.reporter.stage("walks", total=len(SIZES))
    found: dict[int, NDArray[np.float64]] = {}
    for size in SIZES:
        log = walked(context, size).log
        found[size] = intervals(log.op_at, log.op_ms) / constants.min_ms
        context.reporter.advance()
    context.figure(lambda figure: _draw(figure, found, constants.variant))
    nominal, overload = (found[size] for size in SIZES)
    return {
        "within_2min_n150": round(float(np.mean(nominal < 2)), 4),
        "within_3min_n300": round(float(np.mean(overload < 3)), 4),
        "within_2min_n300": round(float(np.mean(overload < 2)), 4),
        "over_5min_n300": round(float(np.mean(overload > 5)), 6),
        **{f"mean_n{size}": round(float(np.mean(found[size])), 3) for size in SIZES},
        **{f"intervals_n{size}": len(found[size]) for size in SIZES},
    }


def _draw(figure: Figure, found: Mapping[int, NDArray[np.float64]], variant: str) -> None:
    axes = figure.add_subplot()
    for size, colour in zip(SIZES, ("#4477aa", "#cc6677"), strict=True):
        shares = np.histogram(found[size], bins=_BINS)[0] / len(found[size])
        axes.stairs(shares, _BINS, color=colour, linewidth=1.6, label=f"N = {size}, {variant}")
        axes.axvline(float(np.mean(found[size])), color=colour, linestyle="--", linewidth=1)
    for bound, text in ((2, "80 % below, N = 150"), (3, "90 % below, N = 300")):
        axes.axvline(bound, color="#117733", linestyle=":")
        axes.text(
            bound + 0.04,
            0.97,
            f"published:\n{text}",
            transform=axes.get_xaxis_transform(),
            va="top",
            fontsize=8,
            color="#117733",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.plot([], [], color="0.4", linestyle="--", linewidth=1, label="mean")
    axes.set(xlabel="interval between operations of a component (Δmin)", ylabel="share of intervals per 0.1 Δmin")
    axes.set(yscale="log", xlim=(1.0, 6.0))
    axes.grid(visible=True, alpha=0.3)
    axes.legend(frameon=False, loc="upper right")
    axes.set_title("Intervals between successive operations (after figure 3)")


TOKEN_INTERVALS: Final = Experiment(
    name="token-intervals",
    summary="intervals between operations of a component under nominal load and overload",
    source="[Token] section 5, figure 3, and section 6",
    parameters=(VARIANT, UNITS),
    published={"within_2min_n150": 0.80, "within_3min_n300": 0.90},
    run=_run,
)
