"""The experiments of the congestion paper on the model, with the figures as our specification defines them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from congestion.model import Overlay
from penstock.congestion import CongestionSettings

DOWN_S = 120


def published_rates(overlay: Overlay) -> list[tuple[float, float]]:
    """The rate of all pubends in each second."""
    return _rates([(each.at_s, sum(each.published)) for each in overlay.seconds])


def _rates(counts: list[tuple[float, int]]) -> list[tuple[float, float]]:
    return [(b[0], (b[1] - a[1]) / (b[0] - a[0])) for a, b in pairwise(counts)]


def smoothed(rates: list[tuple[float, float]], seconds: int = 5) -> list[tuple[float, float]]:
    found = []
    for at in range(len(rates)):
        window = rates[max(0, at - seconds + 1) : at + 1]
        found.append((rates[at][0], sum(rate for _, rate in window) / len(window)))
    return found


def mean_between(rates: list[tuple[float, float]], first_s: float, last_s: float) -> float:
    window = [rate for at, rate in rates if first_s < at <= last_s]
    return sum(window) / len(window) if window else 0.0


@dataclass
class E1:
    recovery_s: float
    rate_before: float
    rate_in_recovery: float
    rate_after: float
    restore_s: float
    nack_window_plateau_ms: float
    nack_window_max_ms: int
    min_pubend_share: float
    queue_max_bytes: int
    lag_end_s: float


def run_e1(
    settings: CongestionSettings, *, kbytes_s: float = 250, seed: int = 1, limit_s: int = 400, after_s: int = 60
) -> E1:
    """IB-SB2 down for two minutes; PB-IB is narrow."""
    overlay = Overlay(settings, seed=seed)
    overlay.trunk.kbytes_s = kbytes_s
    overlay.run(15)
    overlay.links["SB2"].fail()
    overlay.run(DOWN_S)
    overlay.links["SB2"].up = True
    up_s = overlay.seconds[-1].at_s
    while overlay.seconds[-1].at_s < up_s + limit_s and max(overlay.lags_s("SB2")) >= 1:
        overlay.run(1)
    done_s = overlay.seconds[-1].at_s
    restored: list[float | None] = [None] * 4
    published = overlay.seconds[-1].published
    for _ in range(after_s):
        overlay.run(1)
        last = overlay.seconds[-1]
        for number in range(4):
            if last.published[number] - published[number] >= 0.9 * 125 and restored[number] is None:
                restored[number] = last.at_s - done_s
        published = last.published
    overlay.check()
    return _e1_figures(overlay, up_s, done_s, restored)


def _e1_figures(overlay: Overlay, up_s: float, done_s: float, restored: list[float | None]) -> E1:
    rates = published_rates(overlay)
    begin = next(each for each in overlay.seconds if each.at_s >= min(up_s + 15, done_s - 1))
    end = next(each for each in overlay.seconds if each.at_s >= done_s)
    shares = [b - a for a, b in zip(begin.published, end.published, strict=True)]
    in_recovery = [each for each in overlay.seconds if up_s < each.at_s <= done_s]
    middle = in_recovery[len(in_recovery) // 3 : 2 * len(in_recovery) // 3]
    plateau = [window for each in middle for window in each.windows_ms["SB2"]]
    return E1(
        done_s - up_s,
        mean_between(rates, up_s - 10, up_s),
        mean_between(rates, up_s + 10, done_s),
        mean_between(rates, done_s + 50, done_s + 60),
        max(999.0 if each is None else each for each in restored),
        sum(plateau) / max(len(plateau), 1),
        max(max(each.windows_ms["SB2"]) for each in in_recovery),
        min(shares) / max(sum(shares) / len(shares), 1e-9),
        overlay.queue_max_bytes,
        max(max(overlay.lags_s(name)) for name in ("SB1", "SB2")),
    )


@dataclass
class Collapse:
    lag_end_s: float
    queue_max_bytes: int


def run_collapse(settings: CongestionSettings) -> Collapse:
    """IB-SB1 is too narrow for what is published."""
    overlay = Overlay(settings)
    overlay.run(10)
    overlay.links["SB1"].kbytes_s = 60
    overlay.run(100)
    return Collapse(max(overlay.lags_s("SB1")), overlay.queue_max_bytes)


def run_slow_pubends(settings: CongestionSettings) -> list[float]:
    """A link is all but closed for a while, then open: the rate of each pubend a minute later."""
    overlay = Overlay(settings)
    overlay.run(5)
    overlay.links["SB1"].kbytes_s = 2
    overlay.run(40)
    overlay.links["SB1"].kbytes_s = 10_000
    overlay.run(90)
    before = overlay.seconds[-1].published
    overlay.run(5)
    overlay.check()
    return [(b - a) / 5 for a, b in zip(before, overlay.seconds[-1].published, strict=True)]


@dataclass
class E2:
    utilisation: list[float]
    adapt_s: list[float]
    mean_lag_s: list[float]
    max_lag_s: list[float]
    queue_max_bytes: int
    min_pubend_share: float
    lag_end_s: float
    ucas: int


def run_e2(
    settings: CongestionSettings, *, seed: int = 1, phases: tuple[float, ...] = (60, 150, 60), phase_s: int = 120
) -> E2:
    """IB-SB1 changes its bandwidth twice."""
    overlay = Overlay(settings, seed=seed)
    overlay.run(10)
    starts = []
    for kbytes_s in phases:
        starts.append(overlay.seconds[-1].at_s)
        overlay.links["SB1"].kbytes_s = kbytes_s
        overlay.run(phase_s)
    rates = smoothed(published_rates(overlay))
    adapts = [_adapt_s([each for each in rates if start < each[0] <= start + phase_s], start) for start in starts]
    figures = [
        _phase(overlay, start + adapt, start + phase_s, kbytes_s)
        for start, adapt, kbytes_s in zip(starts, adapts, phases, strict=True)
    ]
    first = next(each for each in overlay.seconds if each.at_s >= starts[0])
    shares = [b - a for a, b in zip(first.published, overlay.seconds[-1].published, strict=True)]
    overlay.links["SB1"].kbytes_s = 10_000
    overlay.run(30)
    overlay.check()
    return E2(
        [each[0] for each in figures],
        adapts,
        [each[1] for each in figures],
        [each[2] for each in figures],
        overlay.queue_max_bytes,
        min(shares) * len(shares) / sum(shares),
        max(overlay.lags_s("SB1")),
        overlay.ucas,
    )


def _adapt_s(rates: list[tuple[float, float]], start_s: float) -> float:
    """Until the smoothed rate is within a quarter of its mean over the rest of the phase."""
    for at in range(len(rates) - 1):
        rest = [rate for _, rate in rates[at:]]
        mean = sum(rest) / len(rest)
        if abs(rates[at][1] - mean) <= 0.25 * mean:
            return rates[at][0] - start_s
    return float("inf")


def _phase(overlay: Overlay, first_s: float, last_s: float, kbytes_s: float) -> tuple[float, float, float]:
    window = [each for each in overlay.seconds if first_s <= each.at_s <= last_s]
    carried = window[-1].carried_bytes["SB1"] - window[0].carried_bytes["SB1"]
    seconds = window[-1].at_s - window[0].at_s
    lags = [max(each.lag_s["SB1"]) for each in window]
    return carried / (kbytes_s * 1024 * seconds), sum(lags) / len(lags), max(lags)
