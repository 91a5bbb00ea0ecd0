"""The frame runs an experiment from a seed, and writes down what was published and what was measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from penstock.lab import Context, Experiment, Parameter, run_experiment
from penstock.lab.frame.errors import ParameterError
from penstock.model import MisuseError


class Listener:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def stage(self, title: str, total: int | None = None) -> None:
        self.heard.append(title if total is None else f"{title} ({total})")

    def advance(self, steps: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        self.heard.append(text)


def draw(figure: Figure) -> None:
    figure.add_subplot().plot([1, 2], [3, 4])


def measure(context: Context) -> Mapping[str, float]:
    context.reporter.stage("throwing dice")
    context.figure(draw)
    return {"throw": context.rng.randrange(1_000), "scaled": context.integer("size") * context.number("rate")}


DICE = Experiment(
    name="dice",
    summary="Throws dice",
    source="made up",
    parameters=(Parameter("size", 3, "how large"), Parameter("rate", 0.5, "how fast"), Parameter("word", "a", "text")),
    published={"throw": 500, "scaled": "1-2"},
    run=measure,
)


def test_the_result_has_exactly_the_agreed_fields(tmp_path: Path) -> None:
    result = run_experiment(DICE, ["size=4"], seed=9, figures=tmp_path)
    written = json.loads(result.to_json())
    assert list(written) == ["experiment", "seed", "parameters", "published", "measured", "figure"]
    assert written["experiment"] == "dice"
    assert written["seed"] == 9
    assert written["parameters"] == {"size": 4, "rate": 0.5, "word": "a"}
    assert written["published"] == {"throw": 500, "scaled": "1-2"}
    assert written["measured"]["scaled"] == 2
    assert written["figure"] == str(tmp_path / "dice.png")


def test_the_chart_is_a_png_in_a_folder_made_for_it(tmp_path: Path) -> None:
    run_experiment(DICE, figures=tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder" / "dice.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_seed_measures_the_same(tmp_path: Path) -> None:
    throws = [run_experiment(DICE, seed=seed, figures=tmp_path).measured["throw"] for seed in (1, 1, 2)]
    assert throws[0] == throws[1] != throws[2]


def test_without_matplotlib_it_still_measures_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    listener = Listener()
    result = run_experiment(DICE, figures=tmp_path, reporter=listener)
    assert result.figure is None
    assert result.measured["scaled"] == 1.5
    assert any("penstock[lab]" in text for text in listener.heard)


def test_stages_are_reported(tmp_path: Path) -> None:
    listener = Listener()
    run_experiment(DICE, figures=tmp_path, reporter=listener)
    assert listener.heard == ["throwing dice"]


def test_a_chart_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MisuseError, match="cannot write the chart to"):
        run_experiment(DICE, figures=tmp_path / "file")


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="the seed is -1"):
        run_experiment(DICE, seed=-1, figures=tmp_path)


def test_parameters_are_asked_for_by_their_type(tmp_path: Path) -> None:
    context = Context(0, {"word": "a", "size": 3}, Listener(), tmp_path / "chart.png")
    assert context.text("word") == "a"
    with pytest.raises(AssertionError):
        context.number("size")
