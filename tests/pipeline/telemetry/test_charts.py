from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from penstock.pipeline.telemetry.charts import LINES_MAX, svg_charts
from pipeline.telemetry.reports import report

pytest.importorskip("matplotlib")


def test_charts_are_drawings_with_their_names_and_units() -> None:
    charts = svg_charts(report())
    assert list(charts) == ["episodes", "bytes sent"]
    for text in charts.values():
        assert text.startswith("<svg")
        ET.fromstring(text)  # noqa: S314 - our own
        assert "time (UTC)" in text
    assert "congestion: pubend limited (b1)" in charts["episodes"]
    assert all(word in charts["bytes sent"] for word in ("bytes/s", "b0 bytes_out", "b1 bytes_out"))


def test_the_same_figures_make_the_same_drawing() -> None:
    assert svg_charts(report()) == svg_charts(report())


def test_without_episodes_there_is_no_chart_of_them() -> None:
    assert list(svg_charts(report(episodes=False))) == ["bytes sent"]


def test_lines_that_are_too_many_are_left_out_and_counted() -> None:
    text = svg_charts(report(lines=LINES_MAX + 3))["bytes sent"]
    assert "3 lower lines left out" in text
    assert "b0 bytes_out" not in text
