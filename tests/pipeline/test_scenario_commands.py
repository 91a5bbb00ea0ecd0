"""The commands on a lake as users give them: bad ids and bad files are named, and the rest is done."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.model.message_id import MessageId
from pipeline.audit.test_job import EXACT, WRONG, Run
from pipeline.trace.recorded import SLACK_MS, T0

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pipeline(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", *options, "--master", "local[2]", "--json"])


def test_a_lake_is_traced_and_audited_from_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(EXACT)
    lake = run.ship(tmp_path / "run")
    bad = lake / "histories/date=2023-11-14/broker=b3"
    bad.mkdir(parents=True, exist_ok=True)
    (bad / "torn.parquet").write_bytes(b"PAR1")
    ids = tmp_path / "ids.txt"
    later = MessageId(3, 1, T0 + 10 * 86_400_000, 0)
    ids.write_text(f"# some ids\n{run.name_of(0)}\n\n{run.name_of(WRONG).lower()}\nnonsense\n{later}\n")
    slack = ["--slack", str(SLACK_MS)]
    result = pipeline("trace", str(lake), "--ids", str(ids), "--out", str(tmp_path / "out"), *slack)
    assert result.exit_code == 1, result.output
    assert "not an id: a message id has 26 characters, not 8: 'nonsense'" in result.stderr
    assert "left out: histories/date=2023-11-14/broker=b3/torn.parquet" in result.stderr
    summary = json.loads(result.stdout)
    assert (summary["ids"], summary["malformed"], summary["found"], summary["uncertain"]) == (3, 1, 2, 1)
    *known, unknown = summary["traces"]
    assert {each["message_id"] for each in known} == {run.name_of(0), run.name_of(WRONG)}
    assert all(gap["broker"] == "b3" for each in known for gap in each["gaps"])
    # It is newer than what was shipped.
    assert (unknown["message_id"], "open" in summary["gaps"]) == (str(later), True)
    assert pq.read_table(tmp_path / "out" / "traces").num_rows == 3
    again = pipeline("trace", str(lake), "--ids", str(ids), "--out", str(tmp_path / "out"), *slack)
    assert (again.exit_code, "is not empty" in again.stderr) == (2, True)
    (bad / "torn.parquet").unlink()
    times = [datetime.fromtimestamp(ms / 1_000, UTC).isoformat() for ms in (T0 - 1_000, T0 + 100_000)]
    findings = tmp_path / "found.parquet"
    options = ["--from", times[0], "--to", times[1], "--out", str(findings), *slack]
    result = pipeline("audit", str(lake), *options)
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert (told["is_clean"], told["counts"]["duplicated"], told["subscriptions"]) == (False, 1, 3)
    assert pq.read_table(findings).num_rows == len(told["findings"])


def test_nothing_to_trace_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    lake = Run(EXACT).ship(tmp_path / "run")
    result = pipeline("trace", str(lake), "--id", "?", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert json.loads(result.stdout)["ids"] == 0
    result = pipeline("trace", str(lake), "--ids", "nowhere", "--out", str(tmp_path / "none"))
    assert (result.exit_code, "it is neither a file nor a table of the lake" in result.stderr) == (2, True)
    result = pipeline("trace", str(lake), "--ids", "gaps", "--out", str(tmp_path / "none"))
    assert (result.exit_code, "has no column message_id" in result.stderr) == (2, True)
