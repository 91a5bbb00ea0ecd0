from __future__ import annotations

from penstock.pipeline.telemetry.model import Line, shown_time
from pipeline.telemetry.reports import T0, report


def test_the_summary_has_episodes_with_their_length_and_what_is_drawn_or_of_mechanisms() -> None:
    summary = report().summary()
    assert (summary["from"], summary["to"]) == ("2026-11-15 12:00:00Z", "2026-11-15 12:01:00Z")
    assert [each["seconds"] for each in summary["episodes"]] == [30.0, 0.0]
    assert [each["metric"] for each in summary["highlights"]] == ["penstock_bytes_out_total", "penstock_mechanism"]
    assert summary["brokers"] == ["b1", "b2"]


def test_a_line_is_called_by_broker_figure_and_labels() -> None:
    assert Line("b1", "penstock_nacks_sent_total", "", []).name == "b1 nacks_sent"
    assert Line("b1", "penstock_host_lag_seconds", "host=b2,pubend=q", []).name == "b1 host_lag_seconds b2 q"


def test_times_are_in_utc() -> None:
    assert shown_time(T0) == "2026-11-15 12:00:00Z"
