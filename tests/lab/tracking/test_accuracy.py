"""The experiment ``tracking-accuracy`` measures every row of Table 2, near the formula."""

from __future__ import annotations

from pathlib import Path

from penstock.lab import run_experiment
from penstock.lab.tracking.accuracy import TRACKING_ACCURACY
from penstock.tracking.sizing import TABLE_2

ROWS = ("64k_99_999", "64k_99", "64k_95", "1m_99_999", "1m_99", "1m_95")


def test_every_row_is_within_four_standard_errors_of_the_formula(tmp_path: Path) -> None:
    settings = ["filters=4", "probes=40000", "rare_probes=80000"]
    result = run_experiment(TRACKING_ACCURACY, settings, seed=3, figures=tmp_path)
    measured = result.measured
    for name, shape in zip(ROWS, TABLE_2.values(), strict=True):
        assert abs(measured[f"standard_errors_{name}"]) <= 4
        assert abs(measured[f"fpp_theory_{name}"] / shape.fpp - 1) < 1e-3
        assert result.published[f"fpp_{name}"] == measured[f"fpp_theory_{name}"]
        assert measured[f"probes_{name}"] == (80_000 if name.endswith("999") else 40_000)
        share = measured[f"hits_{name}"] / measured[f"probes_{name}"]
        assert abs(measured[f"fpp_{name}"] - share) <= 1e-3 * share
    worst = max(abs(measured[f"standard_errors_{name}"]) for name in ROWS)
    assert measured["standard_errors_worst"] == worst
    assert measured["hits_1m_95"] > 500
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000


def test_a_full_run_has_as_many_filters_and_foreign_ids_as_the_specification_asks_for() -> None:
    defaults = {each.name: each.default for each in TRACKING_ACCURACY.parameters}
    assert int(defaults["filters"]) >= 100
    assert int(defaults["probes"]) >= 10**6
    assert int(defaults["rare_probes"]) >= 10**8
