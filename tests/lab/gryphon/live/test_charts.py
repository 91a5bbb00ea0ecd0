"""Charts of live runs can be drawn from whatever was seen."""

from __future__ import annotations

import pytest

from lab.gryphon.live.test_figures import samples
from penstock.lab.gryphon.live.charts import draw_outage, draw_phases
from penstock.lab.gryphon.live.figures import Outage, Phase

figures = pytest.importorskip("matplotlib.figure")


def texts(figure: object) -> str:
    return " ".join(found.get_text() for axes in figure.axes for found in (*axes.texts, axes.title))  # type: ignore[attr-defined]


def test_phases_are_drawn_with_their_bandwidths() -> None:
    figure = figures.Figure()
    draw_phases(figure, samples(20, lambda _: 10.0), [Phase(0, 10, 61_440), Phase(10, 20, 153_600)], how="by hand")
    shown = texts(figure)
    assert all(text in shown for text in ("60 KB/s", "150 KB/s", "by hand"))
    assert len(figure.axes) == 3


@pytest.mark.parametrize(("has_recovered", "text"), [(True, "SB2 has recovered"), (False, "not recovered")])
def test_an_outage_is_drawn_with_what_became_of_it(has_recovered: bool, text: str) -> None:
    figure = figures.Figure()
    outage = Outage(5, 10, 15, 20, has_recovered=has_recovered)
    draw_outage(figure, samples(20, lambda _: 10.0), outage, how="x")
    assert text in texts(figure)


def test_a_run_in_which_nothing_was_seen_is_drawn_as_well() -> None:
    draw_phases(figures.Figure(), [], [], how="x")
    draw_outage(figures.Figure(), [], Outage(0, 0, 0, 0), how="x")
