"""The overlay of the live experiment is one that brokers understand, and its edges differ as they should."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from penstock.lab.balancing.live.plan import (
    EDGES,
    HEAD,
    PUBENDS,
    SELECTORS,
    bandwidths,
    draw_quote,
    live_plan,
    live_settings,
)
from penstock.live.config import load_overlay
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.text import parse


def test_the_file_says_how_brokers_balance_themselves(tmp_path: Path) -> None:
    plan = live_plan(subscribers=300, rate=40.0, smoothing_ms=5_000)
    file = tmp_path / "overlay.toml"
    file.write_text(plan.toml({name: 7_000 + number for number, name in enumerate(plan.pubends)}))
    overlay = load_overlay(file)
    assert overlay.brokers[HEAD].pubends == PUBENDS
    for name in (HEAD, *EDGES):
        settings = overlay.settings_for(name)
        assert settings.balancing.is_on
        assert {key: getattr(settings.balancing, key) for key in live_settings(5_000)} == live_settings(5_000)
        role = settings.balancing.role_of(len(settings.neighbours))
        assert role == ("head" if name == HEAD else "edge")
        assert settings.balancing.cluster_of(name, settings.neighbours) == HEAD
    for edge in EDGES:
        assert overlay.settings_for(edge).balancing.output_bandwidth == bandwidths(300, 40.0)[edge]


def test_edges_have_bandwidths_of_one_to_two_to_four() -> None:
    found = bandwidths(300, 40.0)
    assert found["B2"] == pytest.approx(2 * found["B1"], abs=2)
    assert found["B3"] == pytest.approx(4 * found["B1"], abs=4)
    assert bandwidths(600, 40.0)["B3"] == pytest.approx(2 * found["B3"], abs=1)


def test_everybody_together_takes_four_tenths_of_the_bandwidth() -> None:
    rng, conditions = Random(1), [compile_condition(parse(text)) for text in SELECTORS]
    quotes = [draw_quote(rng, number) for number in range(4_000)]
    share = sum(condition(quote) is True for condition in conditions for quote in quotes) / len(quotes) / len(SELECTORS)
    # 186 bytes: what a frame with a quote takes.
    assert 300 * 40 * share * 186 / sum(bandwidths(300, 40.0).values()) == pytest.approx(0.4, rel=0.05)


def test_all_stocks_are_quoted_equally_often() -> None:
    rng = Random(1)
    symbols = [draw_quote(rng, number)["symbol"] for number in range(100)]
    assert {symbols.count(symbol) for symbol in set(symbols)} == {10}
