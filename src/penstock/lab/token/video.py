"""The case study of section 6: a video at 650 KB/s for receivers that share a circuit of 200 MB/s ([Token] section 6).

Each receiver fetches as much as it can while it is enabled: 4 s of the whole circuit, or of its share if others fetch
at the same time. It plays from its buffer from the first fetch on, and stalls while the buffer is empty. The paper
argues with intervals only; here playing is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.token.figures import concurrency, intervals, ratio
from penstock.lab.token.walk import OVERLOAD, SIZES, UNIT_MS, UNITS, VARIANT, constants_of, walked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TOKEN_VIDEO", "fetched_mb", "stalled_share"]

_RATES: Final = np.linspace(300.0, 800.0, 26)
"""Bit rates of the curve, in KB/s."""


@dataclass(slots=True, frozen=True)
class _Found:
    at: NDArray[np.int64]
    begins_ms: NDArray[np.int64]
    mb: NDArray[np.float64]
    """Megabytes that each operation fetched."""
    gaps_ms: NDArray[np.int64]
    shares: NDArray[np.float64]


def fetched_mb(begins_ms: NDArray[np.int64], op_ms: int, *, circuit_mb_s: float) -> NDArray[np.float64]:
    """Megabytes that each operation fetches, if concurrent ones share the circuit equally."""
    edges = np.unique(np.concatenate([begins_ms, begins_ms + op_ms]))
    running = np.searchsorted(begins_ms, edges[:-1], side="right") - np.searchsorted(
        begins_ms + op_ms, edges[:-1], side="right"
    )
    mb = np.append(0.0, np.cumsum(np.diff(edges) / 1000 * circuit_mb_s / np.maximum(running, 1)))
    found: NDArray[np.float64] = mb[np.searchsorted(edges, begins_ms + op_ms)] - mb[np.searchsorted(edges, begins_ms)]
    return found


def stalled_share(
    at: NDArray[np.int64], begins_ms: NDArray[np.int64], mb: NDArray[np.float64], *, rate_kb_s: float, end_ms: int
) -> float:
    """The share of all playing time in which a receiver has nothing to play."""
    stalled_s = played_s = 0.0
    for receiver in np.unique(at):
        mine = at == receiver
        times_s, fills = begins_ms[mine] / 1000, mb[mine]
        buffer_mb = 0.0
        waits = np.diff(np.append(times_s, end_ms / 1000))
        for wait_s, fill in zip(waits, fills, strict=True):
            buffer_mb += fill
            needed_mb = wait_s * rate_kb_s / 1000
            stalled_s += max(needed_mb - buffer_mb, 0.0) / rate_kb_s * 1000
            buffer_mb = max(buffer_mb - needed_mb, 0.0)
        played_s += end_ms / 1000 - times_s[0]
    return ratio(stalled_s, played_s)


def _measured(context: Context, size: int) -> _Found:
    walk = walked(context, size)
    constants, end_ms = walk.constants, context.integer("units") * UNIT_MS
    begins = np.asarray(walk.log.op_ms, dtype=np.int64)
    return _Found(
        np.asarray(walk.log.op_at, dtype=np.int64),
        begins,
        fetched_mb(begins, constants.op_ms, circuit_mb_s=context.number("circuit_mb_s")),
        intervals(walk.log.op_at, walk.log.op_ms),
        concurrency(begins, constants.op_ms, first_ms=0, last_ms=end_ms),
    )


def _run(context: Context) -> Mapping[str, float]:
    constants, end_ms, rate = constants_of(context), context.integer("units") * UNIT_MS, context.number("stream_kb_s")
    context.reporter.stage("receivers", total=len(SIZES))
    metrics: dict[str, float] = {
        "fetch_mb": round(constants.op_ms / 1000 * context.number("circuit_mb_s"), 1),
        "fetch_lasts_s": round(constants.op_ms * context.number("circuit_mb_s") / rate, 1),
    }
    curves: dict[int, list[float]] = {}
    for size in SIZES:
        found = _measured(context, size)
        total = found.shares.sum()
        curves[size] = [
            stalled_share(found.at, found.begins_ms, found.mb, rate_kb_s=each, end_ms=end_ms) for each in _RATES
        ]
        usual = stalled_share(found.at, found.begins_ms, found.mb, rate_kb_s=rate, end_ms=end_ms)
        gap_s = float(np.quantile(found.gaps_ms, 0.9)) / 1000
        metrics |= {
            f"within_2min_n{size}": round(float(np.mean(found.gaps_ms < 2 * constants.min_ms)), 4),
            f"within_3min_n{size}": round(float(np.mean(found.gaps_ms < 3 * constants.min_ms)), 4),
            f"two_or_more_n{size}": round(ratio(found.shares[2:].sum(), total), 6),
            f"more_than_three_n{size}": round(ratio(found.shares[4:].sum(), total), 7),
            f"stalled_n{size}": round(usual, 4),
            f"reduction_n{size}": round(max(1 - metrics["fetch_mb"] * 1000 / gap_s / rate, 0.0), 4),
        }
        context.reporter.advance()
    context.figure(lambda figure: _draw(figure, curves, rate, constants.variant))
    return metrics


def _draw(figure: Figure, curves: Mapping[int, list[float]], rate: float, variant: str) -> None:
    axes = figure.add_subplot()
    for size, colour in zip(SIZES, ("#4477aa", "#cc6677"), strict=True):
        shares = 100 * np.asarray(curves[size])
        axes.plot(_RATES, shares, color=colour, marker="o", markersize=3, label=f"{size} receivers, {variant}")
    axes.axvline(rate, color="0.4", linestyle="--", label=f"the stream, {rate:.0f} KB/s")
    axes.axvline(0.7 * rate, color="#117733", linestyle=":", label=f"published for {OVERLOAD}: reduced by about 30 %")
    axes.set(xlabel="bit rate of the stream (KB/s)", ylabel="playing time without data (%)")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(framealpha=1.0, edgecolor="white", loc="upper left")
    axes.set_title("Case study: how much receivers stall, by the bit rate they agree on")


TOKEN_VIDEO: Final = Experiment(
    name="token-video",
    summary="the paper's case study: receivers of a video stream share a circuit, nominal and overbooked",
    source="[Token] section 6",
    parameters=(
        VARIANT,
        UNITS,
        Parameter("stream_kb_s", 650.0, "bit rate of the stream, in KB/s", minimum=1.0, maximum=1e6),
        Parameter("circuit_mb_s", 200.0, "what the circuit carries, in MB/s", minimum=1.0, maximum=1e6),
    ),
    published={
        "fetch_mb": 800,
        "fetch_lasts_s": "about 1200",
        "within_2min_n150": 0.80,
        "within_3min_n300": 0.90,
        "two_or_more_n150": "< 0.01",
        "more_than_three_n300": "rare",
        "reduction_n300": "about 0.3",
    },
    run=_run,
)
