"""``penstock pipeline trace``: what is wrong is told before Spark starts (with it: ``test_scenario_commands``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


def trace(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "trace", *options])


def test_mistakes_are_told_before_anything_starts(tmp_path: Path) -> None:
    lake = str(tmp_path)
    for options, complaint in (
        ([lake], "name the ids once"),
        ([lake, "--ids", "publications", "--id", "x"], "name the ids once"),
        ([lake, "--id", "x", "--slack", "-5"], "slack -5 ms is negative"),
        ([str(tmp_path / "none"), "--id", "x"], "there is no lake"),
        ([lake, "--id", "x", "--master", "moon"], "master 'moon' is not one of"),
    ):
        result = trace(*options, "--out", str(tmp_path / "out"))
        assert result.exit_code == 2, result.output
        assert complaint in result.stderr
        assert not (tmp_path / "out").exists()
