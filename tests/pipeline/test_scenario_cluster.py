"""The same jobs embedded and on a standalone cluster of two workers: whatever they find or write is the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import penstock
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.model.message import Message
from penstock.pipeline.lake import read_table
from penstock.session.received import Received
from penstock.sim.workloads import QuoteWorkload
from pipeline.all_jobs import ROWS, Work, do_all
from pipeline.audit.test_job import RANGE, SHARP, Run
from pipeline.made_lakes import quote_lake, telemetry_lake
from pipeline.trace.recorded import SLACK_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live

PLAN = OverlayPlan({"b1": ("b1.a", "b1.b", "b1.here", "b1.there")}, defaults={"heartbeat_ms": 50})
TESTS = Path(__file__).resolve().parents[1]
LIMIT_S = 300.0
COUNT = 2_000


@dataclass
class Both:
    """What came of the jobs here and there."""

    here: dict[str, Any]
    there: dict[str, Any]
    folder: Path
    ids: list[str]
    """Of all that was published before."""
    sent: dict[str, list[str]]
    """What rows became, by pubend."""


@pytest.fixture(scope="module")
def both(spark: SparkSession, spark_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("both")
    lake = Run(SHARP).ship(folder / "run")
    quotes = folder / "quotes"
    quote_lake(quotes)
    telemetry_lake(quotes)
    with DemoOverlay(PLAN) as overlay:
        ids = publish(overlay)
        works = {
            place: Work(
                master,
                overlay.url("b1"),
                f"b1.{place}",
                histories=str(shutil.copytree(lake, folder / f"{place}-histories")),
                range_ms=(RANGE.first_ms, RANGE.end_ms),
                slack_ms=SLACK_MS,
                quotes=str(quotes),
                out=str(folder / place),
            )
            for place, master in (("here", "local[2]"), ("there", spark_cluster))
        }
        there = on_cluster(works["there"])
        here = do_all(spark, works["here"])
        sent = {place: published(overlay, f"b1.{place}") for place in works}
    return Both(here, there, folder, ids, sent)


def publish(overlay: DemoOverlay) -> list[str]:
    quotes = [Message(quote, b"x") for quote in QuoteWorkload(Random(7)).publications(COUNT)]
    with penstock.connect_sync(overlay.url("b1")) as client:
        ids = [*client.publish_many(quotes[::2], pubend="b1.a"), *client.publish_many(quotes[1::2], pubend="b1.b")]
    return sorted(map(str, ids))


def on_cluster(work: Work) -> dict[str, Any]:
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.all_jobs"],
        input=msgspec.json.encode(work),
        env=os.environ | {"PYTHONPATH": path, "NO_COLOR": "1"},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return msgspec.json.decode(done.stdout, type=dict[str, Any])


def published(overlay: DemoOverlay, pubend: str) -> list[str]:
    with penstock.connect_sync(overlay.url("b1")) as client:
        span = client.survey().spans[pubend]
        parts = list(client.read(pubend, span.earliest, span.latest))
    return sorted(
        str(sorted(Received(pubend, tick, body).attributes.items()))
        for part in parts
        for tick, body in zip(part.ticks, part.bodies, strict=True)
    )


def test_an_archive_made_on_a_cluster_is_the_same_as_one_made_here(both: Both, spark: SparkSession) -> None:
    # Rows that were sent from there are in the log when the archive is made here.
    assert (both.there["archive"]["rows"], both.here["archive"]["rows"]) == (COUNT, COUNT + ROWS)
    here, there = (
        {
            row.message_id: row.asDict()
            for row in read_table(spark, str(both.folder / place / "lake"), "publications").collect()
            if row.pubend in ("b1.a", "b1.b")
        }
        for place in ("here", "there")
    )
    assert here == there
    assert sorted(there) == both.ids


def test_a_sweep_on_a_cluster_finds_what_the_embedded_session_finds(both: Both) -> None:
    assert both.there["sweep"]["cells"] == both.here["sweep"]["cells"]
    assert both.there["sweep"]["runs"] == both.here["sweep"]["runs"] == 4


@pytest.mark.parametrize("job", ["compacted", "summary", "traces", "audit", "profile", "plan", "telemetry"])
def test_a_job_finds_the_same_here_and_on_a_cluster(both: Both, job: str) -> None:
    assert both.there[job] == both.here[job]


def test_what_jobs_find_is_not_nothing(both: Both) -> None:
    assert both.there["summary"]["ids"] == len(both.there["traces"]) == 100
    assert both.there["audit"]["counts"]["unexplained"] == 49
    for name in ("selectors", "subscriptions", "overlaps", "brokers", "attributes"):
        first, second = (
            (both.folder / place / "profile" / f"{name}.parquet").read_bytes() for place in ("here", "there")
        )
        assert first == second, name


def test_rows_sent_from_a_cluster_are_those_sent_from_here(both: Both) -> None:
    assert both.sent["there"] == both.sent["here"]
    assert len(set(both.sent["there"])) == ROWS
