"""What is seen of real brokers, and that it can be drawn."""

from __future__ import annotations

from matplotlib.figure import Figure

from penstock.balancing.metrics import Load
from penstock.lab.balancing.live.figures import Sample, draw, load_of, returns


def test_a_load_is_what_the_status_says() -> None:
    status = {"state": "OK", "input": 0.1, "output": 0.5, "delay_s": 0.01, "cpu": 0.2, "memory": 0.3}
    assert load_of(status) == Load(0.1, 0.5, 0.01, 0.2, 0.3)


def test_whoever_comes_back_is_counted_each_time() -> None:
    assert returns([]) == 0
    assert returns([["B1"], ["B1", "B2", "B3"]]) == 0
    assert returns([["B1", "B2", "B1"], ["B1", "B3", "B1", "B3"]]) == 3


def samples() -> list[Sample]:
    loads = {edge: Load(output=0.4) for edge in ("B1", "B2", "B3")}
    return [Sample(float(at_s), loads, {"B1": 1, "B2": 2, "B3": 4}, at_s) for at_s in range(5)]


def test_the_chart_marks_when_all_was_balanced() -> None:
    figure = Figure()
    draw(figure, samples(), joined_s=1.0, converged_s=2.0)
    for axes in figure.axes:
        labels = axes.get_legend_handles_labels()[1]
        assert {"B1 (bandwidth 1)", "B3 (bandwidth 4)", "all joined\n1 s", "balanced\n2 s"} <= set(labels)


def test_a_run_that_was_never_balanced_has_no_such_mark() -> None:
    figure = Figure()
    draw(figure, samples(), joined_s=1.0, converged_s=4.0)
    assert not any("balanced" in label for axes in figure.axes for label in axes.get_legend_handles_labels()[1])
