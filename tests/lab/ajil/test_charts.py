from __future__ import annotations

import pytest

from penstock.lab.ajil.charts import difference_panel, traffic_panel, utility_panel
from penstock.lab.ajil.figures import Wave, aup_of, run_wave
from penstock.lab.ajil.world import Shape


def test_panels_have_labels_with_units_and_a_legend() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    run = run_wave(Shape(nodes=6, groups=6, members=3), aup_of(), Wave(2, 8, 10), seed=1)
    panels = figures.Figure().subplots(3, 1)
    traffic_panel(panels[0], run, title="t", packet_bytes=100)
    difference_panel(panels[1], [("with Ajil", run.surge)], title="t")
    utility_panel(panels[2], run, title="t")
    assert [each.get_ylabel() for each in panels] == [
        "aggregate traffic (KBps)",
        "difference to the limit (%)",
        "utility (%)",
    ]
    assert all(each.get_xlabel() and each.get_legend() is not None for each in panels)
