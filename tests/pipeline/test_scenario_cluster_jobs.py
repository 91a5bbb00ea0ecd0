"""The same jobs embedded and on a standalone cluster of two workers: profile, plan, telemetry and sink agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.experiment import QuietReporter
from penstock.pipeline.inputs import TimeSpan
from penstock.pipeline.profile.capacities import parse_capacities
from penstock.pipeline.profile.job import run_profile
from penstock.pipeline.profile.placement import plan_placement
from penstock.pipeline.profile.store import load_profile, profile_summary, save_profile
from penstock.pipeline.telemetry.job import run_telemetry
from pipeline.made_lakes import quote_lake, telemetry_lake

pytestmark = pytest.mark.skipif(
    os.environ.get("PENSTOCK_SOAK") != "1", reason="a cluster of its own takes a minute: make soak runs it"
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT_S = 900.0
ROWS = 500
CAPACITIES = parse_capacities(["b1=1,b2=2"])
# One session on the cluster for all jobs: its start is what costs.
SCRIPT = """
import json, pathlib, sys
from penstock.lab.experiment import QuietReporter
from penstock.pipeline import SessionSettings, using_session
from penstock.pipeline.inputs import TimeSpan
from penstock.pipeline.profile.job import run_profile
from penstock.pipeline.profile.store import save_profile
from penstock.pipeline.telemetry.job import run_telemetry
lake, out, master, broker, staging, rows = sys.argv[1:]
with using_session(SessionSettings(master, "512m", "512m", parallelism=2)) as spark:
    save_profile(run_profile(spark, lake, TimeSpan(), QuietReporter()), pathlib.Path(out))
    print(json.dumps(run_telemetry(spark, lake, TimeSpan(), QuietReporter()).summary()))
    frame = spark.range(int(rows)).repartition(4).selectExpr("id AS number", "concat('n', id) AS name")
    options = {"broker": broker, "pubend": "b1.cluster", "staging": staging}
    frame.write.format("penstock").mode("append").options(**options).save()
"""


def on_cluster(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def published(overlay: DemoOverlay, pubend: str) -> list[str]:
    from penstock.client import Received

    with connect_sync(overlay.url("b1")) as client:
        span = client.survey().spans[pubend]
        parts = list(client.read(pubend, span.earliest, span.latest))
    return sorted(
        str(sorted(Received(pubend, tick, body).attributes.items()))
        for part in parts
        for tick, body in zip(part.ticks, part.bodies, strict=True)
    )


def test_jobs_on_a_cluster_give_what_they_give_here(spark: SparkSession, spark_cluster: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    quote_lake(lake)
    telemetry_lake(lake)
    with DemoOverlay(OverlayPlan({"b1": ("b1.here", "b1.cluster")}, defaults={"heartbeat_ms": 50})) as overlay:
        arguments = [
            str(lake),
            str(tmp_path / "there"),
            spark_cluster,
            overlay.url("b1"),
            str(tmp_path / "s1"),
            str(ROWS),
        ]
        telemetry = on_cluster(*arguments)
        frame = spark.range(ROWS).repartition(3).selectExpr("id AS number", "concat('n', id) AS name")
        options = {"broker": overlay.url("b1"), "pubend": "b1.here", "staging": str(tmp_path / "s2")}
        frame.write.format("penstock").mode("append").options(**options).save()
        assert published(overlay, "b1.cluster") == published(overlay, "b1.here")
        assert len(published(overlay, "b1.here")) == ROWS
    here = run_profile(spark, str(lake), TimeSpan(), QuietReporter())
    save_profile(here, tmp_path / "here")
    there = load_profile(tmp_path / "there")
    assert profile_summary(there) == profile_summary(here)
    for name in ("selectors", "subscriptions", "overlaps", "brokers", "attributes"):
        first, second = ((tmp_path / place / f"{name}.parquet").read_bytes() for place in ("here", "there"))
        assert first == second, name
    assert plan_placement(there, CAPACITIES) == plan_placement(here, CAPACITIES)
    assert json.loads(json.dumps(run_telemetry(spark, str(lake), TimeSpan(), QuietReporter()).summary())) == telemetry
