"""The chart of ``tracking-latency`` shows every strategy, and every configuration if there are any."""

from __future__ import annotations

import pytest

from penstock.lab.tracking.latency import Driven
from penstock.lab.tracking.latency_chart import draw

figure_module = pytest.importorskip("matplotlib.figure")

POINT = Driven(messages=10, cpu_us=40.0, seconds=1.0, p50_ms=0.5, p99_ms=2.0, mean_ms=0.7)
ROUNDS = {"null": [POINT, POINT], "exact": [POINT, POINT], "bloom": [POINT, POINT]}


def test_without_configurations_there_are_rounds_only() -> None:
    figure = figure_module.Figure()
    draw(figure, ROUNDS, {})
    cpu, latency = figure.axes
    assert [line.get_label() for line in cpu.get_lines()] == ["null", "exact", "bloom"]
    assert len(latency.get_lines()) == 6


def test_every_configuration_has_a_bar_and_a_name() -> None:
    figure = figure_module.Figure()
    draw(figure, ROUNDS, {"null": POINT, "BF 99 %, 10 K, Tp 1 s": POINT})
    swept = figure.axes[2]
    assert [label.get_text() for label in swept.get_yticklabels()] == ["null", "BF 99 %, 10 K, Tp 1 s"]
    assert [bar.get_width() for bar in swept.patches] == [0.5, 0.5]
