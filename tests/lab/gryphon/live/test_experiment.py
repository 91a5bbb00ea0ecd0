"""The live experiments, as short as they can be: what they measure is a matter of long runs, not of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.congestion import CongestionError
from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Experiment, run_experiment
from penstock.lab.gryphon.live import experiment as live_experiment
from penstock.lab.gryphon.live.experiment import GRYPHON_E1_LIVE, GRYPHON_E2_LIVE

SHORT_E1 = ("before_seconds=1", "down_seconds=1", "recovery_seconds=2", "after_seconds=1")
SHORT_E2 = ("before_seconds=1", "phase_seconds=1")


@pytest.mark.live
@pytest.mark.parametrize(
    ("experiment", "settings", "metric"),
    [
        (GRYPHON_E1_LIVE, SHORT_E1, "recovery_s"),
        (GRYPHON_E2_LIVE, (*SHORT_E2, "control=off"), "utilisation_3"),
    ],
)
def test_real_brokers_over_narrow_links_lose_nothing(
    experiment: Experiment, settings: tuple[str, ...], metric: str, tmp_path: Path
) -> None:
    measured = run_experiment(experiment, settings, figures=tmp_path).measured
    assert metric in measured
    assert measured["published"] > 0
    assert [measured[name] for name in ("lost", "duplicated", "reordered", "strange")] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("control=maybe", "control is 'maybe', must be on or off"),
        ("links=wires", "links is 'wires', must be relay or netns"),
        ("profile=rash", "no profile 'rash', only paper, swift"),
    ],
)
@pytest.mark.parametrize("experiment", [GRYPHON_E1_LIVE, GRYPHON_E2_LIVE])
def test_what_cannot_be_chosen_is_said_before_anything_starts(
    experiment: Experiment, setting: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises((ParameterError, CongestionError), match=complaint):
        run_experiment(experiment, [setting], figures=tmp_path)


def test_where_there_are_no_namespaces_the_reason_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(live_experiment, "why_no_namespaces", lambda: "tc not found")
    with pytest.raises(ParameterError, match="links=netns is not available on this machine: tc not found"):
        run_experiment(GRYPHON_E2_LIVE, ["links=netns"], figures=tmp_path)
