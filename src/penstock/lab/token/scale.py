"""The token in groups of 1,000 to 100,000, with constants that grow with them ([Token] sections 1, 3 and 7).

The paper claims that the algorithm is fully scalable, and that members need to know no more than O(log N) others. So
hand-overs per operation must be the same for all sizes, and with views of 2 · log2 N members as with full ones. The
number of Δmax to stabilise after a loss must not grow either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.token.figures import concurrency, intervals, ratio
from penstock.lab.token.walk import VARIANT, Walk, constants_of
from penstock.token.members import sample_size
from penstock.token.settings import Constants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TOKEN_SCALE", "known_by"]

_SIZES: Final = (1_000, 10_000, 100_000)
_WARM: Final = 2
"""Warm-up rounds of Δmin, which do not count."""
_FULL, _PARTIAL = "full", "partial"


@dataclass(slots=True, frozen=True)
class _Found:
    handovers: float
    """Hand-overs per operation."""
    interval: float
    """Mean time between operations of a component, in Δmin."""
    multi: float
    stable: float
    """Time to stabilise after a loss, in Δmax."""


def known_by(size: int, factor: float, rng: Random) -> Sequence[Sequence[int]]:
    """Draw the view of each component: factor · log2 N random others."""
    wanted = sample_size(size, factor)
    chance = np.random.default_rng(rng.getrandbits(64))
    views = chance.integers(0, size - 1, size=(size, wanted))
    # Nobody knows itself; a duplicate among so few of so many hardly matters.
    return [[int(each) + (each >= own) for each in row] for own, row in enumerate(views)]


def _measured(context: Context, size: int, views: Sequence[Sequence[int]] | None) -> _Found:
    constants = Constants.for_size(size, variant=constants_of(context).variant)
    walk = Walk(size, constants, Random(context.rng.getrandbits(64)), views=views)
    first_ms = _WARM * constants.min_ms
    walk.run_until(first_ms)
    before, operations = walk.log.visits, len(walk.log.op_ms)
    last_ms = first_ms + context.integer("rounds") * constants.min_ms
    walk.run_until(last_ms)
    counted = len(walk.log.op_ms) - operations
    shares = concurrency(walk.log.op_ms, constants.op_ms, first_ms=first_ms, last_ms=last_ms)
    gaps = intervals(walk.log.op_at, walk.log.op_ms, first_ms=first_ms)
    handovers = ratio(walk.log.visits - before, counted)
    walk.lose_all()
    stable_ms = walk.run_until_stable(last_ms + 100 * constants.max_ms)
    assert stable_ms is not None, f"{size} components are not stable after 100 Δmax"
    return _Found(
        handovers,
        float(np.mean(gaps)) / constants.min_ms,
        ratio(shares[2:].sum(), shares.sum()),
        (stable_ms - last_ms) / constants.max_ms,
    )


def _run(context: Context) -> Mapping[str, float]:
    sizes = [size for size in _SIZES if size <= context.integer("max_size")]
    context.reporter.stage("groups of growing size, full and partial views", total=2 * len(sizes))
    found: dict[str, dict[int, _Found]] = {_FULL: {}, _PARTIAL: {}}
    for size in sizes:
        for kind in (_FULL, _PARTIAL):
            views = None if kind == _FULL else known_by(size, context.number("factor"), context.rng)
            found[kind][size] = _measured(context, size, views)
            context.reporter.advance()
    context.figure(lambda figure: _draw(figure, found))
    metrics: dict[str, float] = {}
    for size in sizes:
        for kind in (_FULL, _PARTIAL):
            each, name = found[kind][size], f"{kind}_{size}"
            metrics[f"handovers_per_op_{name}"] = round(each.handovers, 4)
            metrics[f"interval_{name}"] = round(each.interval, 4)
            metrics[f"multi_{name}"] = round(each.multi, 6)
            metrics[f"stable_{name}"] = round(each.stable, 4)
    return metrics


def _draw(figure: Figure, found: Mapping[str, Mapping[int, _Found]]) -> None:
    panels = figure.subplots(1, 3)
    for kind, colour, marker in ((_FULL, "#4477aa", "o"), (_PARTIAL, "#cc6677", "s")):
        sizes = list(found[kind])
        label = "full view" if kind == _FULL else "view of 2 · log2 N"
        for axes, values in zip(
            panels,
            (
                [each.handovers for each in found[kind].values()],
                [each.interval for each in found[kind].values()],
                [each.stable for each in found[kind].values()],
            ),
            strict=True,
        ):
            axes.plot(sizes, values, color=colour, marker=marker, label=label)
    for axes, text in zip(
        panels, ("hand-overs per operation", "mean interval (Δmin)", "stable after a loss (Δmax)"), strict=True
    ):
        axes.set(xscale="log", xlabel="components (N)", ylabel=text)
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        axes.grid(visible=True, alpha=0.3)
    panels[0].legend(frameon=False, loc="lower left")
    figure.suptitle("The wandering token in large groups, constants grown with N")


TOKEN_SCALE: Final = Experiment(
    name="token-scale",
    summary="hand-overs per operation stay the same for 10³, 10⁴ and 10⁵ components, with full and partial views",
    source="our own; [Token] section 7 claims full scalability, section 1 views of O(log N)",
    parameters=(
        VARIANT,
        Parameter("max_size", 100_000, "components of the largest group", quick=1_000, minimum=1_000),
        Parameter("rounds", 3, "Δmin that are measured", quick=2, minimum=1, maximum=1_000),
        Parameter("factor", 2.0, "partial views have this times log2 N members", minimum=0.1, maximum=100.0),
    ),
    published={},
    run=_run,
)
