"""Whatever happens to a file of a store, nobody is left without a word: random damages against an oracle."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from bench.damage import damaged, judged, made, main, run_seed

DAMAGES = 50


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize("seed", range(3))
def test_no_damage_is_silent(tmp_path: Path, state: str, seed: int) -> None:
    rng = Random(f"{state}/{seed}")
    history, folder, older = made(rng, tmp_path, state)
    results: Counter[str] = Counter()
    for number in range(DAMAGES):
        rng = Random(f"{state}/{seed}/{number}")
        history.rng = rng
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        what = damaged(rng, copy, older)
        result, story = judged(history, copy)
        assert result != "silent", f"damage {number}: {what}: {story}"
        results[result] += 1
        shutil.rmtree(copy)
    assert results["recovered"] > 0
    assert results["refused"] > 0


def test_the_same_seed_gives_the_same_damage() -> None:
    one, two = run_seed(3), run_seed(3)
    assert (one.state, one.file, one.kind, one.result) == (two.state, two.file, two.kind, two.result)


def test_the_campaign_prints_what_came_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first", "5", "--processes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "damages by kind" in printed
    assert "2 damages, 0 silent" in printed
