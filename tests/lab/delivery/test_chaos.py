"""The experiment ``delivery-chaos`` measures what it promises, and the same seed measures the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.delivery.chaos import DELIVERY_CHAOS

PROMISED = [
    "runs",
    "simulated_hours",
    "faults_injected",
    "published",
    "delivered",
    "lost",
    "duplicated",
    "reordered",
    "wrongly_filtered",
    "unconverged",
    "probes_missed",
]


@pytest.mark.long
def test_a_campaign_is_measured_and_can_be_repeated(tmp_path: Path) -> None:
    first = run_experiment(DELIVERY_CHAOS, ["runs=2"], seed=3, figures=tmp_path)
    assert [name for name in first.measured if name in PROMISED] == PROMISED
    assert first.measured["runs"] == 2
    assert all(first.measured[name] > 0 for name in PROMISED[:5])
    assert {name: first.measured[name] for name in DELIVERY_CHAOS.published} == DELIVERY_CHAOS.published
    assert first.figure is not None
    again = run_experiment(DELIVERY_CHAOS, ["runs=2"], seed=3, figures=tmp_path)
    assert again.measured == first.measured
    other = run_experiment(DELIVERY_CHAOS, ["runs=1"], seed=4, figures=tmp_path)
    assert other.measured["digest"] != first.measured["digest"]
