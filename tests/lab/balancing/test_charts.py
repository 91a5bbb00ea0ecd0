"""Charts of balancing: curves, labels with units, published values."""

from __future__ import annotations

import pytest

from lab.balancing.test_measures import sample
from penstock.balancing.metrics import Load
from penstock.balancing.reporting import Estimate
from penstock.model.metrics import DELAY, INPUT

figure_module = pytest.importorskip("matplotlib.figure")


def test_panels_have_labels_and_published_values() -> None:
    from penstock.lab.balancing.charts import estimates_panel, load_panel, mark, overhead_panel

    figure = figure_module.Figure()
    first, second, third = figure.subplots(3, 1)
    samples = [sample(at_s, 0.1, 0.2, messages=10 * at_s, control=at_s) for at_s in range(30)]
    load_panel(first, samples, ["a", "b"], DELAY, title="Figure 6c")
    mark(first, "balanced", x=18)
    assert first.get_ylabel() == "matching delay (s)"
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["a", "b", "published: balanced"]
    overhead_panel(second, samples, title="Figure 6f", window=5)
    mark(second, "1.5 %", y=1.5)
    assert second.get_ylabel() == "message overhead (%)"
    estimate = Estimate(0, is_offloader=True, estimated=Load(0.4), actual=Load(0.5))
    estimates_panel(third, [("a", estimate)], INPUT, title="Figure 7a")
    assert "y = x" in [text.get_text() for text in third.get_legend().get_texts()]
