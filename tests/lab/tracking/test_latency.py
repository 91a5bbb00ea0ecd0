"""``tracking-latency`` measures all strategies and all rows, with brokers that have few clients."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import pytest

from penstock.lab import run_experiment
from penstock.lab.tracking import latency
from penstock.lab.tracking.latency import TRACKING_LATENCY, Driven, draw, interval
from penstock.lab.tracking.table import Configuration
from penstock.sim.workloads import TopicWorkload

figure_module = pytest.importorskip("matplotlib.figure")
POINT = Driven(messages=10, cpu_us=40.0, seconds=1.0, p50_ms=0.5, p99_ms=2.0, mean_ms=0.7)
ROUNDS = {"null": [POINT, POINT], "exact": [POINT, POINT], "bloom": [POINT, POINT]}


@pytest.mark.live
def test_strategies_take_turns_and_rows_are_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(TopicWorkload, publishers=2, subscribers=4, topics=3)
    rows = [Configuration("bloom", 10_000, 1, "64K-99")]
    monkeypatch.setattr(latency, "TopicWorkload", few)
    monkeypatch.setattr(latency, "configurations", lambda: iter(rows))
    settings = ["pairs=1", "seconds=0.5", "rate=200", "sweep_seconds=0.5"]
    result = run_experiment(TRACKING_LATENCY, settings, seed=5, figures=tmp_path)
    measured = result.measured
    assert measured["pairs"] == 1
    for each in ("null", "exact", "bloom"):
        assert measured[f"cpu_us_{each}"] > 0
        assert 0 < measured[f"p50_ms_{each}"] <= measured[f"p99_ms_{each}"]
    for each in ("exact", "bloom"):
        low, ratio, high = (measured[f"cpu_ratio_{each}{end}"] for end in ("_low", "", "_high"))
        assert 0 < low <= ratio <= high
    for name in ("untracked", "64k_99_tp1"):
        assert measured[f"p50_ms_{name}"] > 0
        assert 0 < measured[f"messages_per_s_{name}"] <= 220
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000


def test_the_interval_of_a_median_holds_it_and_shrinks_with_more_values() -> None:
    rng = Random(1)
    few, many = ([rng.gauss(10, 1) for _ in range(count)] for count in (8, 800))
    low, high = interval(few, rng)
    assert min(few) <= low < high <= max(few)
    narrow_low, narrow_high = interval(many, rng)
    assert narrow_low < 10.1
    assert narrow_high > 9.9
    assert narrow_high - narrow_low < (high - low) / 2
    assert interval([3.0], rng) == (3.0, 3.0)


def test_a_full_run_has_as_many_pairs_as_the_specification_asks_for() -> None:
    defaults = {each.name: each.default for each in TRACKING_LATENCY.parameters}
    assert int(defaults["pairs"]) >= 10
    assert defaults["rate"] == 5_000


def test_without_configurations_there_are_rounds_only() -> None:
    figure = figure_module.Figure()
    draw(figure, ROUNDS, {})
    cpu, delays = figure.axes
    assert [line.get_label() for line in cpu.get_lines()] == ["null", "exact", "bloom"]
    assert len(delays.get_lines()) == 6


def test_every_configuration_has_a_bar_and_a_name() -> None:
    figure = figure_module.Figure()
    draw(figure, ROUNDS, {"null": POINT, "BF 99 %, 10 K, Tp 1 s": POINT})
    swept = figure.axes[2]
    assert [label.get_text() for label in swept.get_yticklabels()] == ["null", "BF 99 %, 10 K, Tp 1 s"]
    assert [bar.get_width() for bar in swept.patches] == [0.5, 0.5]
