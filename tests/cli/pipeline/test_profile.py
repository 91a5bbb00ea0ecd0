"""``penstock pipeline profile`` and ``plan``: what is wrong is told before Spark starts, and a plan needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.cli.pipeline.profile import balancing_difference
from penstock.model.errors import MisuseError
from penstock.pipeline.folders import read_folder_table
from pipeline.made_lakes import quote_lake

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", *options])


def test_a_lake_that_is_missing_empty_or_damaged_is_told(tmp_path: Path) -> None:
    result = run("profile", str(tmp_path / "no"))
    assert result.exit_code == 2
    assert "there is no lake at" in result.stderr
    (tmp_path / "lake").mkdir()
    result = run("profile", str(tmp_path / "lake"))
    assert result.exit_code == 2
    assert "no rows in its table publications yet" in result.stderr
    quote_lake(tmp_path / "lake")
    path = next((tmp_path / "lake/publications").rglob("*.parquet"))
    path.write_bytes(b"no")
    result = run("profile", str(tmp_path / "lake"))
    assert result.exit_code == 1
    assert f"cannot read {path}" in result.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--from", "noon"], "is not a time"),
        (["--from", "2026-11-15T10:00:00Z", "--to", "2026-11-15T09:00:00Z"], "before it begins"),
        (["--master", "moon"], "master 'moon' is not one of"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path: Path, options: list[str], says: str) -> None:
    result = run("profile", str(tmp_path), *options)
    assert result.exit_code == 2
    assert says in result.stderr


def saved(lake: Path) -> None:
    from penstock.pipeline.profile.store import save_profile
    from pipeline.profile.profiles import quote_profile

    lake.mkdir()
    save_profile(quote_profile(1, 100, silent=20), lake / "_profile")


def test_a_plan_is_made_of_a_profile_and_compared(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    saved(lake)
    (tmp_path / "balancing.json").write_text('{"measured": {"max_difference_end_input": 0.05}}')
    options = ["--capacities", "B1=1,B2=2", "--reference", "0.6mbps:200us+210us", "--json"]
    result = run("plan", str(lake), *options, "--compare", str(tmp_path / "balancing.json"))
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["plan_max_difference"] < summary["now_max_difference"]
    assert summary["balancing_max_difference"] == 0.05
    placed = read_folder_table(lake / "_plan", "placement")["broker"]
    assert len(placed) == 120
    assert summary["moved"] == placed.count("B2")
    shown = run("plan", str(lake), "--capacities", "B1=1,B2=2", "--reference", "0.6mbps:200us+210us")
    assert shown.exit_code == 0
    assert "plan_max_difference" in shown.stdout
    assert "now, as predicted" in shown.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--capacities", "b1=fast"], "capacity 'fast' is not understood"),
        (["--capacities", "b1=1"], "make one with: penstock pipeline profile"),
        (["--capacities", "b1=1", "--compare", "nosuch.json"], "cannot read nosuch.json"),
    ],
)
def test_a_plan_without_its_inputs_is_refused(tmp_path: Path, options: list[str], says: str) -> None:
    result = run("plan", str(tmp_path), *options)
    assert result.exit_code == 2
    assert says in result.stderr


def test_weak_brokers_are_named(tmp_path: Path) -> None:
    saved(tmp_path / "lake")
    result = run("plan", str(tmp_path / "lake"), "--capacities", "other=1bps")
    assert result.exit_code == 0
    assert "broker other would be overloaded" in result.stderr


def test_the_largest_difference_of_a_result_is_found(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('{"measured": {"max_difference_end_input": 0.02, "max_difference_end_delay": 0.07, "sessions": 9}}')
    assert balancing_difference(path) == 0.07


@pytest.mark.parametrize("content", ["{}", "[", '{"measured": {"lost": 0}}'])
def test_what_is_no_such_result_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(MisuseError, match="is not a result of"):
        balancing_difference(path)
    with pytest.raises(MisuseError, match="cannot read"):
        balancing_difference(tmp_path / "no")
