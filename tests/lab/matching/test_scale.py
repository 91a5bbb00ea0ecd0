"""The experiment ``matching-scale`` measures the metrics it promises, at sizes small enough for a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.matching import scale
from penstock.lab.matching.scale import MATCHING_SCALE

SMALL = ["publications=10", "symbols=3"]


def test_sizes_up_to_the_limit_are_measured_and_larger_ones_are_absent(tmp_path: Path) -> None:
    result = run_experiment(MATCHING_SCALE, [*SMALL, "max_size=1500"], figures=tmp_path)
    expected = [f"{kind}_us_{size}" for kind in ("find", "enumerate", "links") for size in (100, 1_000)]
    assert list(result.measured) == [*expected, "naive_us_1000"]
    assert all(value > 0 for value in result.measured.values())
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000


@pytest.mark.long
def test_at_full_size_every_promised_metric_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The same run with every size divided by a hundred or more.
    monkeypatch.setattr(scale, "_SIZES", (10, 100, 1_000))
    monkeypatch.setattr(scale, "_NAIVE_SIZES", (10, 100))
    monkeypatch.setattr(scale, "_MIXED_SIZES", (100, 1_000))
    monkeypatch.setattr(scale, "_CHANGES_AT", 1_000)
    monkeypatch.setattr(scale, "_COVERING_AT", 100)
    monkeypatch.setattr(scale, "_PROMOTION_SYMBOLS", 5)
    measured = run_experiment(MATCHING_SCALE, [*SMALL, "max_size=1000"], figures=tmp_path).measured
    by_size = [f"{kind}_us_{size}" for kind in ("find", "enumerate", "links") for size in (10, 100, 1_000)]
    assert list(measured) == [
        *by_size,
        "naive_us_10",
        "naive_us_100",
        "mixed_us_100",
        "mixed_us_1000",
        "insert_us_1000",
        "remove_us_1000",
        "bytes_per_subscription_1000",
        "css_size_100",
        "css_size_without_root_100",
        "promote_ms_1000",
        "promote_size_1000",
    ]
    assert measured["css_size_100"] == 1
    assert 3 <= measured["css_size_without_root_100"] <= 4
    assert 5 <= measured["promote_size_1000"] <= 6


def test_real_quotes_take_the_place_of_the_made_up_market(tmp_path: Path) -> None:
    quotes = tmp_path / "quotes.csv"
    quotes.write_text("date,symbol,open,high,low,close,volume\n2004-12-28,YHOO,37.85,37.99,37.65,37.90,11291000\n")
    result = run_experiment(MATCHING_SCALE, ["publications=10", "max_size=100", f"quotes={quotes}"], figures=tmp_path)
    assert result.parameters["quotes"] == str(quotes)
    assert result.measured["find_us_100"] > 0


def test_published_figures_are_named_like_measured_ones() -> None:
    sizes = (100, 1_000, 10_000, 100_000, 1_000_000)
    kinds = ("find_us", "enumerate_us", "links_us", "naive_us", "mixed_us", "insert_us", "remove_us")
    assert set(MATCHING_SCALE.published) <= {f"{kind}_{size}" for kind in kinds for size in sizes}
