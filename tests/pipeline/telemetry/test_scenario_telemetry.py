"""``penstock pipeline telemetry`` on Spark: what is found is written, and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.pipeline.folders import read_folder_table
from pipeline.made_lakes import telemetry_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "telemetry", *options])


@pytest.mark.live
def test_a_page_and_tables_are_written(spark: SparkSession, tmp_path: Path) -> None:
    telemetry_lake(tmp_path / "lake")
    result = run(
        str(tmp_path / "lake"), "--master", str(spark.sparkContext.master), "--out", str(tmp_path / "out"), "--json"
    )
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["samples"] == 420
    assert len(summary["episodes"]) == 4
    assert read_folder_table(tmp_path / "out", "episodes")["kind"][1] == "congestion: pubend limited"
    assert "<svg" in (tmp_path / "out/telemetry.html").read_text()
    assert list((tmp_path / "out_tidy").glob("*.parquet"))
    shown = run(str(tmp_path / "lake"), "--master", str(spark.sparkContext.master))
    assert shown.exit_code == 0
    assert "4 episodes" in shown.stdout
    assert (tmp_path / "lake/_telemetry/telemetry.html").exists()
