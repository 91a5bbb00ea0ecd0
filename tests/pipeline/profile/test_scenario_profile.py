"""``penstock pipeline profile`` on Spark, and a plan of what it found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from penstock.cli.app import app
from pipeline.made_lakes import quote_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_lake_is_profiled_and_planned_for(spark: SparkSession, tmp_path: Path) -> None:
    quote_lake(tmp_path)
    master = ["--master", str(spark.sparkContext.master)]
    made = CliRunner().invoke(app, ["pipeline", "profile", str(tmp_path), *master, "--json"])
    assert made.exit_code == 0, made.stderr
    summary = json.loads(made.stdout)
    assert (summary["subscriptions"], summary["window"]["publications"]) == (60, 600)
    assert [each["broker"] for each in summary["brokers"]] == ["b1", "b2"]
    shown = CliRunner().invoke(app, ["pipeline", "profile", str(tmp_path), *master, "--out", str(tmp_path / "out")])
    assert shown.exit_code == 0, shown.stderr
    assert "busiest selectors" in shown.stdout
    plan = CliRunner().invoke(app, ["pipeline", "plan", str(tmp_path), "--capacities", "b1=1,b2=3", "--json"])
    assert plan.exit_code == 0, plan.stderr
    counts = {each["broker"]: each["subscriptions"] for each in json.loads(plan.stdout)["brokers"]}
    assert sum(counts.values()) == 60
    assert counts["b2"] > counts["b1"]
