"""The chart of a sweep: a panel per metric that varies, lines per cell, intervals, and a note of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.sweep.chart import draw_sweep
from penstock.pipeline.sweep.plan import Run, SweepPlan, planned
from penstock.pipeline.sweep.summary import summarised
from pipeline.toys import WAVE

figures = pytest.importorskip("matplotlib.figure", reason="charts: matplotlib is not installed")


def found_for(plan: SweepPlan, metrics: int = 1) -> dict[Run, dict[str, float]]:
    return {
        run: {f"m{number}": float(number + 10 * run.cell + run.seed % 3) for number in range(metrics)} | {"same": 4.0}
        for run in plan.runs
    }


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Draws, and hands back the figure that was written."""
    kept: list[Any] = []
    save = figures.Figure.savefig

    def keep_and_save(self: Any, path: Path) -> None:
        kept.append(self)
        save(self, path)

    monkeypatch.setattr(figures.Figure, "savefig", keep_and_save)

    def draw(plan: SweepPlan, found: dict[Run, dict[str, float]], **options: Any) -> Any:
        target = tmp_path / "new" / "chart.png"
        assert draw_sweep(plan, summarised(plan, found), found, target, **options) == target
        assert target.read_bytes().startswith(b"\x89PNG")
        return kept[-1]

    return draw


def test_each_metric_that_varies_has_a_panel_and_the_rest_is_told(drawn: Any) -> None:
    plan = planned(WAVE, grid=["size=1,2,4"], seeds="1..4")
    figure = drawn(plan, found_for(plan, metrics=2))
    assert [axes.get_title() for axes in figure.axes] == ["m0", "m1"]
    assert figure.get_supxlabel() == "the same in every run: same = 4"
    assert "wave: mean and 95 % interval, 4 seeds per cell" in figure.get_suptitle()
    assert figure.axes[0].get_xlabel() == "size"
    assert figure.axes[0].get_xscale() == "linear"


def test_lines_stand_for_the_other_keys_and_have_intervals(drawn: Any) -> None:
    plan = planned(WAVE, grid=["size=1,100", "mode=calm,wild"], seeds="1..4")
    figure = drawn(plan, found_for(plan))
    [axes] = figure.axes
    assert axes.get_xscale() == "log"
    assert [each.get_label() for each in axes.containers] == ["calm", "wild"]
    line, caps, _ = axes.containers[0].lines
    assert list(line.get_xdata()) == [1, 100]
    assert line.get_ydata()[1] - line.get_ydata()[0] == 20
    assert caps[0].get_ydata()[0] < line.get_ydata()[0] < caps[1].get_ydata()[0]
    assert figure.legends[0].get_title().get_text() == "mode"


def test_texts_are_places_on_the_axis(drawn: Any) -> None:
    plan = planned(WAVE, grid=["mode=wild,calm"], seeds="1,2")
    [axes] = drawn(plan, found_for(plan)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["wild", "calm"]


def test_without_a_grid_the_spread_is_drawn(drawn: Any) -> None:
    plan = planned(WAVE, seeds="1..30")
    [axes] = drawn(plan, found_for(plan)).axes
    assert axes.get_ylabel() == "runs"
    assert sum(bar.get_height() for bar in axes.containers[0]) == 30


def test_a_metric_asked_for_is_drawn_alone_though_it_is_constant(drawn: Any) -> None:
    plan = planned(WAVE, grid=["size=1,2"], seeds="1,2")
    figure = drawn(plan, found_for(plan), metrics=["same"])
    assert [axes.get_title() for axes in figure.axes] == ["same"]


def test_panels_are_bounded_and_what_is_left_out_is_told(drawn: Any) -> None:
    plan = planned(WAVE, grid=["size=1,2"], seeds="1,2")
    figure = drawn(plan, found_for(plan, metrics=14))
    assert len(figure.axes) == 12
    assert "not drawn: m12, m13" in figure.get_supxlabel()


def test_nothing_found_is_no_chart_and_a_bad_place_is_told(tmp_path: Path) -> None:
    plan = planned(WAVE, seeds="1,2")
    assert draw_sweep(plan, summarised(plan, {}), {}, tmp_path / "x.png") is None
    (tmp_path / "file").touch()
    found = found_for(plan)
    with pytest.raises(MisuseError, match="cannot write the chart to"):
        draw_sweep(plan, summarised(plan, found), found, tmp_path / "file" / "x.png")
