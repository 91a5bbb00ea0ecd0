"""The experiment ``token-live``: what is measured, by hand; and the whole, with few processes."""

from __future__ import annotations

from pathlib import Path

from penstock.lab import run_experiment
from penstock.lab.token.live.experiment import TOKEN_LIVE, Operation, stabilised_ms


def operation(generation: str, begin_ms: float) -> Operation:
    return Operation("m", generation, begin_ms, begin_ms + 4)


def test_a_loss_is_over_with_the_first_operation_of_the_token_that_stays() -> None:
    told = [operation("a", 10), operation("b", 130), operation("c", 140), operation("b", 150), operation("b", 170)]
    assert stabilised_ms(told, 100, 1_000) == 50
    assert stabilised_ms(told, 100, 145) == 40
    assert stabilised_ms(told, 100, 135) == 30
    assert stabilised_ms(told, 200, 1_000) is None


def test_processes_share_a_token_and_survive_the_death_of_its_holder(tmp_path: Path) -> None:
    settings = ["members=4", "kills=1", "op_ms=30"]
    result = run_experiment(TOKEN_LIVE, settings, seed=1, figures=tmp_path)
    measured = result.measured
    assert list(measured)[:3] == ["overlap", "stabilisation_ms_mean", "stabilisation_ms_max"]
    assert measured["kills"] == 1
    assert measured["stabilisation_ms_max"] > 0
    # Time is not judged here: machines are slow at times. But most operations do not overlap on any.
    assert measured["overlap"] < 0.5
    assert measured["operations"] > 4
    assert (tmp_path / "token-live.png").stat().st_size > 10_000
