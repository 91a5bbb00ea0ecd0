"""``make soak`` tells by its exit code what the worst failure was, and prints the seed, the story and missed probes."""

from __future__ import annotations

from typing import Any

import pytest
from bench import soak

from penstock.sim.campaign import BrokenLawError, NoProgressError
from penstock.sim.delivery_run import DeliveryRun
from penstock.sim.verdict import Verdict

ONE = ["--campaign", "delivery", "--processes", "1"]


class Staged:
    """A campaign whose outcome follows from its seed: seed 1 lacks progress, 2 breaks a law, 3 crashes."""

    def __init__(self, seed: int, **_: Any) -> None:
        self._run = DeliveryRun(str(seed), ["links: b1-b2"], digest="d1")
        if seed == 1:
            self._run.unconverged = "sub-1 is not connected"
        elif seed == 2:
            self._run.verdict = Verdict(lost=1, problems=["sub-1: misses this"])
        elif seed == 3:
            self._run.crash = "KeyError: 3"

    def run(self) -> DeliveryRun:
        return self._run


@pytest.fixture(autouse=True)
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "DeliveryCampaign", Staged)


@pytest.mark.parametrize(("first", "seeds", "code"), [(0, 1, 0), (0, 2, 2), (1, 2, 1), (1, 3, 3), (3, 1, 3)])
def test_the_exit_code_tells_the_worst_failure(first: int, seeds: int, code: int) -> None:
    assert soak.main([*ONE, "--first", str(first), "--seeds", str(seeds)]) == code


def test_a_failure_prints_its_seed_its_story_and_how_to_replay_it(capsys: pytest.CaptureFixture[str]) -> None:
    soak.main([*ONE, "--first", "2", "--seeds", "1"])
    captured = capsys.readouterr()
    assert "FAULT in campaign delivery, seed 2: broken law" in captured.err
    assert "sub-1: misses this" in captured.err
    assert "--seeds 1 --first 2 --campaign delivery --story" in captured.err
    assert "trims: a log was trimmed" in captured.out


def test_a_story_is_told_of_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main([*ONE, "--first", "1", "--story"]) == 2
    assert "seed 1: lack of progress" in capsys.readouterr().out
    assert soak.main([*ONE, "--first", "0", "--story"]) == 0
    assert "digest d1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code"),
    [(BrokenLawError("twice"), 1), (AssertionError("unequal"), 1), (NoProgressError("stuck"), 2), (KeyError("x"), 3)],
)
def test_failures_of_other_campaigns_are_told_apart(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setitem(soak.CAMPAIGNS, "overlay", fail)
    assert soak.main(["--campaign", "overlay", "--seeds", "1", "--processes", "1"]) == code
