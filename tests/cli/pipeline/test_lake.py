"""``penstock pipeline check`` and ``retain``: bad files are found, old days go, and mistakes are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pipeline.lake.test_care import FOLDER, ship


def pipeline(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", *options])


def test_a_lake_is_checked_and_bad_files_are_set_aside(tmp_path: Path) -> None:
    ship(tmp_path, "good")
    assert pipeline("check", str(tmp_path)).exit_code == 0
    (tmp_path / FOLDER / "bad.parquet").write_bytes(b"x")
    result = pipeline("check", str(tmp_path), "--json")
    assert result.exit_code == 1
    (table,) = json.loads(result.stdout)
    assert (table["table"], table["good"], list(table["problems"])) == ("telemetry", 1, [f"{FOLDER}/bad.parquet"])
    result = pipeline("check", str(tmp_path), "--set-aside")
    assert "set aside: _aside/telemetry" in result.stderr
    assert pipeline("check", str(tmp_path)).exit_code == 0


def test_old_days_are_given_up(tmp_path: Path) -> None:
    path = ship(tmp_path, "old")
    old = tmp_path / "telemetry/date=2020-01-01/broker=b"
    old.mkdir(parents=True)
    path.rename(old / "old.parquet")
    result = pipeline("retain", str(tmp_path), "--days", "30", "--dry-run")
    assert "to be deleted: 1 of telemetry" in result.stdout
    result = pipeline("retain", str(tmp_path), "--days", "30", "--json")
    assert json.loads(result.stdout)["files"] == {"telemetry": 1}
    assert not (old / "old.parquet").exists()


def test_mistakes_are_told_before_anything_starts(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    for options, complaint in (
        (["retain", nowhere, "--days", "3"], "there is no lake"),
        (["retain", str(tmp_path), "--days", "3", "--table", "gaps"], "'gaps' cannot lose days"),
        (["check", nowhere], "there is no lake"),
    ):
        result = pipeline(*options)
        assert result.exit_code == 2, (options, result.output)
        assert complaint in result.stderr
