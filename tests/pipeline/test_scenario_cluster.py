"""The same job embedded and on a standalone cluster of two workers: an archive of the same log has the same rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import penstock
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.model.message import Message
from penstock.pipeline.lake import read_table
from penstock.sim.workloads import QuoteWorkload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN = OverlayPlan({"b1": ("b1.a", "b1.b")}, defaults={"heartbeat_ms": 50})
LIMIT_S = 120.0
COUNT = 2_000


def archived(overlay: DemoOverlay, lake: Path, master: str) -> dict[str, Any]:
    """What the command says that archives everything there is now."""
    options = ["--broker", overlay.url("b1"), "--lake", str(lake), "--once", "--from", "earliest", "--json"]
    small = ["--master", master, "--driver-memory", "512m", "--executor-memory", "512m"]
    done = subprocess.run(
        [sys.executable, "-c", "from penstock.cli import main; main()", "pipeline", "archive", *options, *small],
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def test_an_archive_made_on_a_cluster_is_the_same_as_one_made_here(
    spark: SparkSession, spark_cluster: str, tmp_path: Path
) -> None:
    quotes = [Message(quote, b"x") for quote in QuoteWorkload(Random(7)).publications(COUNT)]
    with DemoOverlay(PLAN) as overlay:
        with penstock.connect_sync(overlay.url("b1")) as client:
            ids = [*client.publish_many(quotes[::2], pubend="b1.a"), *client.publish_many(quotes[1::2], pubend="b1.b")]
        summary = archived(overlay, tmp_path / "cluster", spark_cluster)
        archived(overlay, tmp_path / "here", "local[2]")
    assert summary["rows"] == COUNT
    rows = [
        sorted((row.asDict() for row in read_table(spark, str(tmp_path / place), "publications").collect()), key=str)
        for place in ("cluster", "here")
    ]
    assert rows[0] == rows[1]
    assert sorted(row["message_id"] for row in rows[0]) == sorted(map(str, ids))
