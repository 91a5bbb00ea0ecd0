"""Figures of live runs, from samples whose figures are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from penstock.lab.gryphon.live.figures import (
    Outage,
    Phase,
    has_caught_up,
    lag_end_s,
    outage_figures,
    phase_figures,
    published,
    queue_max_bytes,
)
from penstock.lab.gryphon.live.plan import PUBENDS
from penstock.lab.gryphon.series import Sample


def samples(
    seconds: float,
    rate: Callable[[float], float],
    *,
    delivered: Callable[[float], float] | None = None,
    lag_s: Callable[[float], float] = lambda _: 0.0,
    queue: Callable[[float], int] = lambda _: 0,
) -> list[Sample]:
    """Two a second, with so many messages a second of each pubend, and delivered to each host."""
    found, count, got = [], 0.0, 0.0
    for step in range(int(seconds * 2) + 1):
        at_s = step / 2
        found.append(
            Sample(
                at_s=at_s,
                published=(int(count),) * len(PUBENDS),
                allowed=(math.inf,) * len(PUBENDS),
                delivered={"sb1": int(got), "sb2": int(got)},
                lag_s={"sb1": 0.0, "sb2": lag_s(at_s)},
                queued_bytes={"pb": 10, "ib": queue(at_s)},
                windows_ms={"sb1": (100,), "sb2": (100, int(at_s) * 100)},
                horizon_rates={"sb1": (1.0,), "sb2": (1.0,)},
                recovering={"sb1": False, "sb2": False},
            )
        )
        count += rate(at_s) / 2
        got += (delivered or (lambda at_s: len(PUBENDS) * rate(at_s)))(at_s) / 2
    return found


def test_all_pubends_count() -> None:
    assert published(samples(1, lambda _: 100.0)[-1]) == 400


def test_a_rate_that_fits_the_bottleneck_uses_it_fully() -> None:
    # 100 messages a second of 360 bytes each.
    phases = [Phase(10.0, 50.0, 36_000.0)]
    seen = samples(50, lambda at_s: 125.0 if at_s < 12 else 25.0, lag_s=lambda at_s: 3.0 if at_s > 20 else 9.0)
    figures = phase_figures(seen, phases, "sb2")
    assert list(figures) == ["utilisation_1", "adapt_s_1", "mean_lag_s_1"]
    assert figures["utilisation_1"] == pytest.approx(1.0, abs=0.02)
    assert 3.0 <= figures["adapt_s_1"] <= 8.0
    assert 3.0 < figures["mean_lag_s_1"] < 5.0


def test_a_bottleneck_that_is_half_empty_is_used_by_half() -> None:
    figures = phase_figures(samples(20, lambda _: 12.5), [Phase(0.0, 20.0, 36_000.0)], "sb1")
    assert figures["utilisation_1"] == pytest.approx(0.5, abs=0.02)


def test_an_outage_is_measured_from_link_up() -> None:
    outage = Outage(down_s=20.0, up_s=30.0, recovered_s=42.0, last_s=70.0)

    def rate(at_s: float) -> float:
        return 30.0 if 30 <= at_s < 48 else 125.0

    figures = outage_figures(samples(70, rate), outage, "sb2")
    assert (figures["recovery_s"], figures["recovered"]) == (12.0, 1.0)
    assert figures["rate_before"] == figures["rate_after"] == pytest.approx(500, rel=0.01)
    assert figures["rate_in_recovery"] == pytest.approx(120, rel=0.01)
    assert figures["restore_s"] == pytest.approx(7.5, abs=1.0)
    assert figures["nack_window_max_ms"] == 4_200
    assert figures["min_pubend_share"] == 1.0


def test_what_never_happens_counts_as_all_of_the_observation() -> None:
    outage = Outage(20.0, 30.0, 50.0, 60.0, has_recovered=False)
    figures = outage_figures(samples(60, lambda at_s: 125.0 if at_s < 30 else 10.0), outage, "sb2")
    assert (figures["recovery_s"], figures["recovered"], figures["restore_s"]) == (20.0, 0.0, 10.0)


def test_queues_and_the_last_lag_are_the_worst_of_all() -> None:
    seen = samples(10, lambda _: 1.0, lag_s=lambda at_s: at_s, queue=lambda at_s: 777 if at_s == 5 else 0)
    assert queue_max_bytes(seen) == 777
    assert queue_max_bytes([]) == 0
    assert lag_end_s(seen, 10.0) == pytest.approx(8.5)
    assert lag_end_s([], 10.0) == 0.0


def test_caught_up_means_within_a_second() -> None:
    early, late = samples(1, lambda _: 1.0, lag_s=lambda at_s: 0.999 + at_s)[:2]
    assert (has_caught_up(early, "sb2"), has_caught_up(late, "sb2"), has_caught_up(late, "sb1")) == (True, False, True)
