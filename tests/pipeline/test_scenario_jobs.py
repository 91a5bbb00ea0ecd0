"""The jobs on the lake, embedded and on a standalone cluster of two workers: trace, audit and compaction agree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock.pipeline.audit import audit_lake
from penstock.pipeline.compact import compact_histories
from penstock.pipeline.session import SessionSettings, using_session
from penstock.pipeline.trace import TraceOptions, run_trace
from pipeline.audit.test_job import RANGE, SHARP, Run
from pipeline.trace.recorded import SLACK_MS

pytestmark = pytest.mark.skipif(
    os.environ.get("PENSTOCK_SOAK") != "1", reason="a cluster of its own takes a minute: make soak runs it"
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT_S = 300.0
TESTS = Path(__file__).resolve().parents[1]


def results(spark: SparkSession, lake: Path, out: Path) -> dict[str, Any]:
    """What the jobs find in a lake, one after the other."""
    compacted = msgspec.to_builtins(compact_histories(spark, str(lake), now_ms=0))
    summary = run_trace(spark, TraceOptions(str(lake), out, "publications", slack_ms=SLACK_MS))
    rows = spark.read.parquet(str(out / "traces")).drop("way_detail").collect()
    traces = sorted((row.id_low, row.way, list(row.receivers), round(row.error_probability, 12)) for row in rows)
    audit = msgspec.to_builtins(audit_lake(spark, str(lake), RANGE, slack_ms=SLACK_MS))
    audit["findings"] = sorted(audit["findings"], key=str)
    summary.out = ""
    found = {"compacted": compacted, "summary": summary, "traces": traces, "audit": audit}
    return msgspec.json.decode(msgspec.json.encode(found), type=dict[str, Any])


def main() -> None:
    """Run the jobs on a master, in a process of its own."""
    master, lake, out = sys.argv[1:]
    settings = SessionSettings(master, driver_memory="512m", executor_memory="512m", parallelism=2)
    with using_session(settings) as spark:
        print(json.dumps(results(spark, Path(lake), Path(out))))


def test_jobs_find_the_same_here_and_on_a_cluster(spark: SparkSession, spark_cluster: str, tmp_path: Path) -> None:
    lake = Run(SHARP, faults=True).ship(tmp_path / "run")
    copy = shutil.copytree(lake, tmp_path / "copy")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from pipeline.test_scenario_jobs import main; main()",
            spark_cluster,
            str(copy),
            str(tmp_path / "there"),
        ],
        env=os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    here = results(spark, lake, tmp_path / "here")
    assert json.loads(done.stdout) == here
    assert here["summary"]["ids"] == 100
    assert here["audit"]["counts"]["unexplained"] == 49
