"""How often full filters claim messages they never saw, row by row of Table 2 ([Tracking] section 4.1, figure 1).

Filters are filled with ids as publishers of one broker make them, and asked for ids of the same publishers at other
times. The standard error is that of the mean over filters, which are filled independently.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.tracking.table import ROW_EFPP, metric_of, row_label
from penstock.tracking.accuracy import FppMeasurement, measure_fpp
from penstock.tracking.sizing import TABLE_2, fpp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TRACKING_ACCURACY"]

_RARE: Final = 1e-4
"""Rows below this false positive probability need more foreign ids to show any hits."""
_CURVE_BITS: Final = 65_536
_CURVE: Final = range(4, 33)
"""Bits per message of the curve."""
_DIGITS: Final = 4


def _run(context: Context) -> Mapping[str, float]:
    filters = context.integer("filters")
    context.reporter.stage(f"{filters} filters of each row", total=len(TABLE_2))
    found: dict[str, FppMeasurement] = {}
    for row, shape in TABLE_2.items():
        probes = context.integer("rare_probes" if ROW_EFPP[row] < _RARE else "probes")
        rng = Random(context.rng.getrandbits(64))
        found[row] = measured = measure_fpp(shape, filters=filters, probes=max(probes, filters), rng=rng)
        context.reporter.note(
            f"{row}: {measured.hits:,} of {measured.probes:,} foreign ids, {measured.deviation:+.2f} standard errors"
        )
        context.reporter.advance()
    context.figure(lambda figure: _draw(figure, found))
    return _metrics(found)


def _metrics(found: Mapping[str, FppMeasurement]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for row, each in found.items():
        name = metric_of(row)
        metrics[f"fpp_{name}"] = _rounded(each.measured)
        metrics[f"fpp_theory_{name}"] = _rounded(each.theory)
        metrics[f"standard_errors_{name}"] = round(each.deviation, 2)
        metrics[f"probes_{name}"] = each.probes
        metrics[f"hits_{name}"] = each.hits
    metrics["standard_errors_worst"] = max(abs(round(each.deviation, 2)) for each in found.values())
    return metrics


def _rounded(probability: float) -> float:
    """Round to a few significant digits, however small it is."""
    return float(f"{probability:.{_DIGITS}g}")


def _draw(figure: Figure, found: Mapping[str, FppMeasurement]) -> None:
    axes = figure.add_subplot()
    best = [min(fpp(_CURVE_BITS, _CURVE_BITS // bits, k) for k in range(1, 33)) for bits in _CURVE]
    axes.plot(list(_CURVE), best, color="0.6", linewidth=2, label="formula, best number of hashes")
    for place, (row, each) in enumerate(found.items()):
        bits = each.shape.m / each.shape.n
        # Error bars are four standard errors, within which the measurement has to stay.
        low = min(4 * each.standard_error, 0.9 * each.measured)
        bars = [[low], [4 * each.standard_error]]
        label = f"{row_label(row)}, k = {each.shape.k}"
        marker = "o" if row.startswith("64K") else "s"
        axes.errorbar(
            [bits], [each.measured], yerr=bars, fmt=marker, color=f"C{place}", capsize=4, markersize=6, label=label
        )
        axes.plot([bits], [each.theory], marker="_", color="black", markersize=16, linestyle="none")
    axes.plot([], [], marker="_", color="black", markersize=16, linestyle="none", label="formula with this k")
    axes.set(yscale="log", xlabel="bits per message (m / n)", ylabel="false positive probability")
    axes.set_title("Accuracy of full filters: measured (± 4 standard errors) and by formula")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(frameon=False)


TRACKING_ACCURACY: Final = Experiment(
    name="tracking-accuracy",
    summary="False positive probability of every filter of the tracking paper, beside the formula",
    source="[Tracking] section 4.1 formula (1), Table 2 and figure 1",
    parameters=(
        Parameter("filters", 200, "independently filled filters of each row", quick=100, minimum=2, maximum=100_000),
        Parameter("probes", 4_000_000, "foreign ids asked for, in each row", quick=1_000_000, minimum=1_000),
        Parameter(
            "rare_probes",
            100_000_000,
            "foreign ids asked for, in each 99.999 % row",
            quick=4_000_000,
            minimum=1_000,
            maximum=1e10,
        ),
    ),
    published={f"fpp_{metric_of(row)}": _rounded(shape.fpp) for row, shape in TABLE_2.items()},
    run=_run,
)
