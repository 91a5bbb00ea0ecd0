from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.lab.ajil.live.multicast import AJIL_LIVE_MULTICAST, settled_figures, smoothed, surge_panel
from penstock.lab.demo_overlay import free_ports
from penstock.lab.frame.experiment import run_experiment


@pytest.mark.live
def test_a_surge_over_real_sockets_loses_nothing_and_a_late_joiner_learns_the_policy(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    measured = run_experiment(AJIL_LIVE_MULTICAST, [f"port={port}"], quick=True, figures=tmp_path).measured
    assert measured["lost"] == 0
    assert 0 <= measured["late_joiner_epochs"] <= 3
    assert measured["slowed_workers"] >= 1
    assert measured["overshoot_over_5_epochs"] < measured["raw_overshoot"]


def test_figures_are_of_what_comes_after_settling() -> None:
    surge = np.array([1.25, 1.2, *[1.0] * 8, *[1.1, 0.9] * 10])
    figures = settled_figures(surge)
    assert figures["settle_epochs"] == 1
    assert figures["overshoot_over_5_epochs"] < 0.03
    assert figures["overshoot"] == pytest.approx(0.05)
    assert figures["mean_after_settling"] == pytest.approx(1.0)


def test_a_mean_needs_five_epochs() -> None:
    assert smoothed(np.array([1.0, 2.0])).tolist() == [1, 2]
    assert smoothed(np.array([1.0, 2, 3, 4, 5, 6])).tolist() == pytest.approx([3, 4])


def test_the_panel_marks_limit_surge_and_who_comes_late() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    axes = figures.Figure().add_subplot()
    surge_panel(axes, np.arange(10) / 5, np.ones(10), surge_s=(0.5, 1.5), late="somebody comes late")
    labels = axes.get_legend_handles_labels()[1]
    assert labels[-1] == "somebody comes late"
    assert "limit (60 KB/s)" in labels
