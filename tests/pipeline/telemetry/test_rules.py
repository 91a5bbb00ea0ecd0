from __future__ import annotations

from penstock.pipeline.telemetry.rules import CHARTS, EPISODES, QUIET_STATES, YES_FIGURES


def test_only_what_grows_is_drawn_as_a_rate() -> None:
    for chart in CHARTS:
        assert chart.unit
        assert all(metric.endswith("_total") == chart.is_rate for metric in chart.metrics), chart.title


def test_names_are_as_brokers_ship_them() -> None:
    assert all(name.startswith("penstock_") for name in (*EPISODES, *(each for c in CHARTS for each in c.metrics)))
    assert all(name == name.lower() for name in (*QUIET_STATES, *YES_FIGURES))
    assert len({chart.title for chart in CHARTS}) == len(CHARTS)
