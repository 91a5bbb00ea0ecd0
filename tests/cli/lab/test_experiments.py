"""``penstock lab`` lists and runs experiments, and keeps standard output clean for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app

SMALL = ["--set", "max_size=100", "--set", "publications=10", "--set", "symbols=2"]


def lab(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lab", *arguments])


def test_experiments_are_listed_with_their_parameters() -> None:
    result = lab("list")
    assert result.exit_code == 0
    assert "matching-scale" in result.stdout
    assert "max_size" in result.stdout


def test_the_list_is_available_as_json() -> None:
    listed = json.loads(lab("list", "--json").stdout)
    assert listed[0]["name"] == "matching-scale"
    assert {"name", "type", "default", "quick", "help"} == set(listed[0]["parameters"][0])


def test_a_run_shows_published_beside_measured(tmp_path: Path) -> None:
    result = lab("run", "matching-scale", *SMALL, "--figures", str(tmp_path))
    assert result.exit_code == 0
    assert "links_us_100" in result.stdout
    assert f"chart: {tmp_path / 'matching-scale.png'}" in result.stdout.replace("\n", "")
    assert "100 subscriptions" in result.stderr


def test_with_json_to_standard_output_there_is_nothing_else_on_it(tmp_path: Path) -> None:
    result = lab("run", "matching-scale", *SMALL, "--seed", "3", "--json", "-", "--figures", str(tmp_path))
    written = json.loads(result.stdout)
    assert list(written) == ["experiment", "seed", "parameters", "published", "measured", "figure"]
    assert written["seed"] == 3
    assert written["parameters"]["max_size"] == 100


def test_the_result_goes_to_a_file_in_a_folder_made_for_it(tmp_path: Path) -> None:
    target = tmp_path / "new" / "result.json"
    result = lab("run", "matching-scale", *SMALL, "--json", str(target), "--figures", str(tmp_path))
    assert result.exit_code == 0
    assert json.loads(target.read_text())["experiment"] == "matching-scale"


def test_quotes_is_short_for_the_parameter(tmp_path: Path) -> None:
    result = lab("run", "matching-scale", *SMALL, "--quotes", str(tmp_path / "none.csv"), "--figures", str(tmp_path))
    assert result.exit_code == 2
    assert "none.csv: cannot be read" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["matching-scael"], "did you mean matching-scale"),
        (["matching-scale", "--set", "size=1"], "no parameter 'size'; known parameters: symbols"),
        (["matching-scale", "--set", "links=many"], "parameter links: 'many' is not of type integer"),
        (["matching-scale", "--json", "/dev/null/x.json"], "cannot write the result to"),
        (["matching-scale", "--figures", "/dev/null"], "cannot write the chart to"),
    ],
)
def test_misuse_is_told_in_one_line_before_anything_runs(arguments: list[str], complaint: str) -> None:
    result = lab("run", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
