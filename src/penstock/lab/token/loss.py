"""How a group recovers when all tokens are lost: how long, and how many operate at once ([Token] section 5, figure 4).

A loss: after 6,000 units and up to a Δmin more, all tokens vanish, and no component remembers earlier losses. It is
over at the first instant with exactly one token, if there was at least one all through the last Δmin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.token.figures import concurrency, intervals, ratio
from penstock.lab.token.walk import OVERLOAD, SIZES, UNIT_MS, VARIANT, Walk, constants_of
from penstock.token.settings import Constants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TOKEN_LOSS"]

_BEFORE_UNITS: Final = 6_000
_LIMIT_UNITS: Final = 5_000_000
_LONG: Final = 5
"""Intervals of more than this many Δmin may mean starvation, as the paper says."""
_SHARES: Final = 512


@dataclass(slots=True)
class _Transients:
    units: list[float] = field(default_factory=list)
    """How long each loss took."""
    shares: np.ndarray = field(default_factory=lambda: np.zeros(_SHARES))
    """Time by the number of operations at once, over all losses."""
    long: int = 0
    intervals: int = 0

    @property
    def mean(self) -> float:
        return float(np.mean(self.units))


def _measured(context: Context, size: int, constants: Constants) -> _Transients:
    found = _Transients()
    for _ in range(context.integer("losses")):
        walk = Walk(size, constants, Random(context.rng.getrandbits(64)))
        lost_ms = _BEFORE_UNITS * UNIT_MS + int(context.rng.random() * constants.min_ms)
        walk.run_until(lost_ms)
        walk.lose_all()
        before = len(walk.log.op_ms)
        stable_ms = walk.run_until_stable(_LIMIT_UNITS * UNIT_MS)
        assert stable_ms is not None, f"not stable after {_LIMIT_UNITS:,} units"
        found.units.append((stable_ms - lost_ms) / UNIT_MS)
        # Operations in progress when their token vanished are not part of the transient.
        shares = concurrency(walk.log.op_ms[before:], constants.op_ms, first_ms=lost_ms, last_ms=stable_ms)
        found.shares[: min(len(shares), _SHARES)] += shares[:_SHARES]
        gaps = intervals(walk.log.op_at, walk.log.op_ms, first_ms=lost_ms)
        found.long += int(np.sum(gaps > _LONG * constants.min_ms))
        found.intervals += len(gaps)
        context.reporter.advance()
    return found


def _run(context: Context) -> Mapping[str, float]:
    adaptive, fixed = constants_of(context), constants_of(context, growth=1.0)
    context.reporter.stage("losses, with adaptive and with fixed Δgen", total=4 * context.integer("losses"))
    usual = {size: _measured(context, size, adaptive) for size in SIZES}
    unmoved = {size: _measured(context, size, fixed) for size in SIZES}
    context.figure(lambda figure: _draw(figure, usual, unmoved, adaptive.variant))
    shares = {size: each.shares / each.shares.sum() for size, each in usual.items()}
    overload = usual[OVERLOAD]
    return {
        **{f"loss_multi_n{size}": round(float(shares[size][2:].sum()), 6) for size in SIZES},
        "loss_over5_n300": round(float(shares[OVERLOAD][6:].sum()), 7),
        "loss_over_5min_n300": round(ratio(overload.long, overload.intervals), 4),
        **{f"loss_duration_n{size}": round(usual[size].mean, 1) for size in SIZES},
        **{f"loss_duration_fixed_n{size}": round(unmoved[size].mean, 1) for size in SIZES},
        "loss_duration_max": round(max(max(each.units) for each in usual.values()), 1),
        **{f"loss_duration_max_n{size}": round(max(usual[size].units), 1) for size in SIZES},
    }


def _draw(figure: Figure, usual: Mapping[int, _Transients], fixed: Mapping[int, _Transients], variant: str) -> None:
    axes = figure.add_subplot()
    for size, colour in zip(SIZES, ("#4477aa", "#cc6677"), strict=True):
        for found, style, kind in ((usual, "-", "adaptive Δgen"), (fixed, ":", "fixed Δgen")):
            units = np.sort(found[size].units)
            reached = np.arange(1, len(units) + 1) / len(units)
            axes.step(units, reached, where="post", color=colour, linestyle=style, label=f"N = {size}, {kind}")
    axes.axvline(20_000, color="#117733", linestyle="--", label="published: about 20,000")
    axes.set(xscale="log", ylim=(0, 1.02))
    axes.set(xlabel="time from the loss to stable operation (units)", ylabel="share of losses that are over by then")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(frameon=False, loc="best")
    axes.set_title(f"Stabilisation after a loss, variant {variant} (after figure 4)")


TOKEN_LOSS: Final = Experiment(
    name="token-loss",
    summary="how long a group needs after the loss of its token, and how many operate at once meanwhile",
    source="[Token] section 5, figure 4",
    parameters=(VARIANT, Parameter("losses", 100, "losses of each kind", quick=10, minimum=1, maximum=100_000)),
    published={
        "loss_multi_n150": 0.03,
        "loss_multi_n300": 0.09,
        "loss_over5_n300": 0.00015,
        "loss_over_5min_n300": 0.15,
        "loss_duration_n150": "about 20,000",
        "loss_duration_n300": "about 20,000",
    },
    run=_run,
)
