"""The experiment ``token-loss``, shortened: the variants differ by more than an order of magnitude."""

from __future__ import annotations

from pathlib import Path

from penstock.lab import run_experiment
from penstock.lab.token.loss import TOKEN_LOSS


def test_losses_are_over_much_sooner_in_the_swift_variant(tmp_path: Path) -> None:
    swift = run_experiment(TOKEN_LOSS, ["losses=5"], seed=2, figures=tmp_path).measured
    paper = run_experiment(TOKEN_LOSS, ["losses=2", "variant=paper"], seed=2, figures=tmp_path).measured
    assert swift["loss_duration_n150"] <= 1_200
    assert swift["loss_duration_n300"] <= 900
    assert swift["loss_duration_max"] <= 2_000
    assert swift["loss_multi_n150"] <= 0.0005
    assert swift["loss_multi_n300"] <= 0.001
    assert paper["loss_duration_n300"] > 20_000
    assert 0.06 < paper["loss_multi_n300"] < 0.11
    assert paper["loss_duration_fixed_n300"] < paper["loss_duration_n300"]
    assert (tmp_path / "token-loss.png").stat().st_size > 10_000
