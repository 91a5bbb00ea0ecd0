"""Panels show what they are given, with published values beside."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from penstock.lab.gryphon.charts import (
    alerts_panel,
    horizon_panel,
    mark,
    queue_panel,
    rate_panel,
    span,
    window_panel,
)
from penstock.lab.gryphon.overlay import QUEUE_BYTES, Alert
from penstock.lab.gryphon.series import Sample

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

SAMPLES = [
    Sample(
        float(second),
        (second * 10, second * 10),
        (inf, 5.0),
        {"SB1": second * 20},
        {"SB1": 0.5},
        {"IB-SB1": QUEUE_BYTES if second == 3 else second},
        {"SB1": (100, 100 * second)},
        {"SB1": (1.0, 2.0)},
        {"SB1": second == 2},
    )
    for second in range(5)
]


def labels(axes: object) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]  # type: ignore[attr-defined]


def test_every_panel_has_its_curves_and_a_legend() -> None:
    axes = Figure().subplots(5, 1)
    rate_panel(axes[0], SAMPLES, ("SB1",), title="rates")
    assert labels(axes[0]) == ["PB", "SB1"]
    assert list(axes[0].lines[0].get_ydata()) == [20.0] * 4
    queue_panel(axes[1], SAMPLES, ("IB-SB1",), title="queues")
    assert labels(axes[1]) == ["IB-SB1", "bound"]
    window_panel(axes[2], SAMPLES, "SB1", title="windows")
    assert labels(axes[2]) == ["pubend 1", "pubend 2"]
    horizon_panel(axes[3], SAMPLES, "SB1", title="horizons")
    assert labels(axes[3]) == ["SB1, mean of pubends", "is_rec"]
    assert list(axes[3].lines[0].get_ydata()) == [1.5] * 5
    alerts_panel(axes[4], [Alert(1, "p", 0.9, inf), Alert(2, "p", inf, 1.5)], title="alerts")
    assert labels(axes[4]) == ["UCA_nonrec", "UCA_rec"]


def test_published_values_are_marked() -> None:
    axes = Figure().subplots()
    rate_panel(axes, SAMPLES, (), title="rates")
    mark(axes, "160 s", x=3)
    mark(axes, "about 900", y=900)
    span(axes, 1, 2, "down")
    assert labels(axes) == ["PB", "published: 160 s", "published: about 900 (off the scale)"]
    assert axes.texts[0].get_text() == "down"


def test_a_queue_that_stays_short_is_not_drawn_beside_its_bound() -> None:
    axes = Figure().subplots()
    queue_panel(axes, SAMPLES[:3], ("IB-SB1",), title="queues")
    assert labels(axes) == ["IB-SB1"]
    assert not axes.texts


def test_a_panel_says_that_it_is_not_empty_by_mistake() -> None:
    axes = Figure().subplots()
    queue_panel(axes, [replace(each, queued_bytes={"IB-SB1": 0}) for each in SAMPLES], ("IB-SB1",), title="queues")
    assert [each.get_text() for each in axes.texts] == ["nothing ever waits"]
