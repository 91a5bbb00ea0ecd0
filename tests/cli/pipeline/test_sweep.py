"""``penstock pipeline sweep`` without Spark: what it refuses, what it shows, and how it ends.

The runs are made in this process; that Spark makes the same of them is shown in tests/pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.cli.pipeline import frame
from penstock.cli.pipeline import sweep as sweep_command
from penstock.lab import Context, Experiment, Parameter
from penstock.lab.frame.parameters import ParameterValue
from penstock.pipeline.errors import SparkMissingError
from penstock.pipeline.sweep import running as sweeping
from penstock.pipeline.sweep.plan import Run
from penstock.pipeline.sweep.tasks import Outcome, outcomes

pytest.importorskip("pyarrow", reason="Spark tests: pyarrow is not installed")


def _measure(context: Context) -> Mapping[str, float]:
    if context.seed == 13:
        raise ValueError("unlucky")
    return {"runs": context.integer("size") * 10 + context.seed, "same": 5.0}


TOY = Experiment("toy", "a toy", "nowhere", (Parameter("size", 1, "how large"),), {}, _measure)


def made_here(
    context: object,
    experiment: Experiment,
    cells: Sequence[Mapping[str, ParameterValue]],
    tasks: Sequence[Sequence[Run]],
) -> Iterator[list[Outcome]]:
    for task in tasks:
        yield list(outcomes(experiment, cells, task))


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    monkeypatch.setattr(sweep_command, "check_requirements", lambda: None)
    monkeypatch.setattr(frame, "using_session", lambda _: nullcontext(session))
    monkeypatch.setattr(sweep_command, "find_experiment", lambda _: TOY)
    monkeypatch.setattr(sweeping, "run_tasks", made_here)
    monkeypatch.chdir(tmp_path)


def sweep(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "sweep", *arguments])


@pytest.mark.usefixtures("without_spark")
def test_mean_and_interval_are_shown_cell_below_cell() -> None:
    result = sweep("toy", "--grid", "size=1,2", "--seeds", "1..3")
    assert result.exit_code == 0
    rows = [[each.strip() for each in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert rows == [
        ["1", "runs", "3", "12", "± 2.48"],
        ["2", "runs", "3", "22", "± 2.48"],
        ["1", "same", "3", "5", "± 0"],
        ["2", "same", "3", "5", "± 0"],
    ]
    assert "starting Spark on local[*]\n6 runs of toy\n" in result.stderr


@pytest.mark.usefixtures("without_spark")
def test_results_and_chart_are_files_that_are_named(tmp_path: Path) -> None:
    result = sweep("toy", "--grid", "size=1,2", "--seeds", "1..3", "--figures", "charts", "--out", "kept")
    assert "results: kept/results.parquet" in result.stdout
    [chart] = (tmp_path / "charts").iterdir()
    assert f"chart: charts/{chart.name}" in result.stdout


@pytest.mark.usefixtures("without_spark")
def test_by_default_each_sweep_has_a_folder_of_its_own(tmp_path: Path) -> None:
    for size in ("1", "2"):
        assert sweep("toy", "--set", f"size={size}", "--seeds", "1,2").exit_code == 0
    assert len(list((tmp_path / "sweeps").iterdir())) == 2


@pytest.mark.usefixtures("without_spark")
def test_with_json_to_standard_output_there_is_nothing_else_on_it() -> None:
    written = json.loads(sweep("toy", "--seeds", "1..2", "--json", "-").stdout)
    assert written["cells"][0]["metrics"]["runs"]["mean"] == 11.5
    assert written["figure"].endswith(".png")


@pytest.mark.usefixtures("without_spark")
def test_the_summary_goes_to_a_file_beside_the_table(tmp_path: Path) -> None:
    result = sweep("toy", "--seeds", "1..2", "--json", "new/summary.json")
    assert "summary: new/summary.json" in result.stderr
    assert "mean" in result.stdout
    assert json.loads((tmp_path / "new" / "summary.json").read_text())["runs"] == 2


@pytest.mark.usefixtures("without_spark")
def test_only_the_metric_asked_for_is_shown() -> None:
    result = sweep("toy", "--seeds", "1..2", "--metric", "same")
    assert "same" in result.stdout
    assert "11.5" not in result.stdout


@pytest.mark.usefixtures("without_spark")
def test_a_failed_run_is_told_with_its_seed_and_makes_the_exit_code_one() -> None:
    result = sweep("toy", "--grid", "size=1,2", "--seeds", "12..14", "--json", "-")
    assert result.exit_code == 1
    assert "failed: size=2 seed 13: ValueError: unlucky (test_sweep.py:" in result.stderr
    assert [each["seed"] for each in json.loads(result.stdout)["failures"]] == [13, 13]
    assert json.loads(result.stdout)["runs"] == 4


@pytest.mark.usefixtures("without_spark")
def test_a_folder_of_another_sweep_is_refused() -> None:
    assert sweep("toy", "--set", "size=1", "--out", "kept").exit_code == 0
    result = sweep("toy", "--set", "size=2", "--out", "kept")
    assert result.exit_code == 2
    assert 'holds another sweep: its parameters is {"size":1}, not {"size":2}' in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["delivery-caos"], "did you mean delivery-chaos or"),
        (["delivery-chaos", "--grid", "runs"], "grid 'runs' is not of the form key=a,b,c"),
        (["delivery-chaos", "--grid", "runs=1,x"], "parameter runs: 'x' is not of type integer"),
        (["delivery-chaos", "--seeds", "9..1"], "seeds '9..1' do not rise"),
        (["delivery-chaos", "--master", "here"], "master 'here' is not one of"),
        (["delivery-chaos", "--driver-memory", "1"], "driver memory '1' is not a number"),
    ],
)
def test_misuse_is_told_in_one_line_before_anything_runs(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = sweep(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_spark_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise SparkMissingError("pyspark is not installed; install it with: pip install 'penstock[spark]'")

    monkeypatch.setattr(sweep_command, "check_requirements", missing)
    monkeypatch.chdir(tmp_path)
    result = sweep("delivery-chaos")
    assert result.exit_code == 2
    assert "pip install 'penstock[spark]'" in result.stderr
    assert list(tmp_path.iterdir()) == []
