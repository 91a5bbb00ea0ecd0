"""All jobs, one after the other, in the session that runs: here, or in a process of its own on a cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.model.reporting import QuietReporter
from penstock.pipeline.audit import audit_lake
from penstock.pipeline.audit.job import AuditRange
from penstock.pipeline.compact import compact_histories
from penstock.pipeline.profile.capacities import parse_capacities
from penstock.pipeline.profile.job import run_profile
from penstock.pipeline.profile.placement import plan_placement
from penstock.pipeline.profile.store import load_profile, profile_summary, save_profile
from penstock.pipeline.session import SessionSettings, using_session
from penstock.pipeline.telemetry.job import run_telemetry
from penstock.pipeline.time_span import TimeSpan
from penstock.pipeline.trace import TraceOptions, run_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 500
SWEEP = ["sweep", "delivery-chaos", "--set", "runs=1", "--seeds", "1..4", "--json", "-"]
CAPACITIES = parse_capacities(["b1=1,b2=2"])


class Work(msgspec.Struct):
    """What the jobs are to work on."""

    master: str
    broker: str
    """The address of the broker with everything."""
    pubend: str
    """Where to publish rows."""
    histories: str
    """A lake of histories, and of its archive; it is changed."""
    range_ms: tuple[int, int]
    slack_ms: int
    quotes: str
    """A lake of quotes, subscriptions and telemetry."""
    out: str
    """A folder for all that is written."""


def do_all(spark: SparkSession, work: Work) -> dict[str, Any]:
    """What comes of all jobs, as plain values."""
    found = {
        "archive": command(work, "archive", "--broker", work.broker, "--lake", f"{work.out}/lake", "--once", "--from",
                           "earliest", "--json"),
        "sweep": command(work, *SWEEP, "--out", f"{work.out}/sweep", "--figures", work.out),
        **on_histories(spark, work),
        **on_quotes(spark, work),
    }  # fmt: skip
    frame = spark.range(ROWS).repartition(4).selectExpr("id AS number", "concat('n', id) AS name")
    options = {"broker": work.broker, "pubend": work.pubend, "staging": f"{work.out}/staging"}
    frame.write.format("penstock").mode("append").options(**options).save()
    return msgspec.json.decode(msgspec.json.encode(found), type=dict[str, Any])


def command(work: Work, *arguments: str) -> dict[str, Any]:
    """What a command of the pipeline prints."""
    done = CliRunner().invoke(app, ["pipeline", *arguments, "--master", work.master])
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def on_histories(spark: SparkSession, work: Work) -> dict[str, Any]:
    """Compaction, then traces and an audit of what it left."""
    out = Path(work.out) / "traces"
    compacted = msgspec.to_builtins(compact_histories(spark, work.histories, now_ms=0))
    summary = run_trace(spark, TraceOptions(work.histories, out, "publications", slack_ms=work.slack_ms))
    rows = spark.read.parquet(str(out / "traces")).drop("way_detail").collect()
    traces = sorted((row.id_low, row.way, list(row.receivers), round(row.error_probability, 12)) for row in rows)
    audit = msgspec.to_builtins(audit_lake(spark, work.histories, AuditRange(*work.range_ms), slack_ms=work.slack_ms))
    audit["findings"] = sorted(audit["findings"], key=str)
    summary.out = ""
    return {"compacted": compacted, "summary": summary, "traces": traces, "audit": audit}


def on_quotes(spark: SparkSession, work: Work) -> dict[str, Any]:
    """Profile, plan and telemetry."""
    folder = Path(work.out) / "profile"
    save_profile(run_profile(spark, work.quotes, TimeSpan(), QuietReporter()), folder)
    profile = load_profile(folder)
    return {
        "profile": profile_summary(profile),
        "plan": plan_placement(profile, CAPACITIES),
        "telemetry": run_telemetry(spark, work.quotes, TimeSpan(), QuietReporter()).summary(),
    }


def main() -> None:
    """Do the work that standard input tells of, in a session on its master."""
    work = msgspec.json.decode(sys.stdin.buffer.read(), type=Work)
    # One session for all jobs: its start is what costs.
    with using_session(SessionSettings(work.master, "512m", "512m", parallelism=2)) as spark:
        found = do_all(spark, work)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
