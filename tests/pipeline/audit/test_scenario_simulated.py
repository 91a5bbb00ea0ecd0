"""Audits of simulated overlays in which every broker crashed: nothing is wrong, and each planted fault is found.

The tables are those that the brokers' own records become when they are shipped. Faults are planted in them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from live.shipping.lakes import parquet_files, rows_of
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.pipeline.audit import AuditSummary, audit_lake
from penstock.tracking.hashing import subscriber_key
from pipeline.audit.simulated import RANGE, SimulatedRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 3
SHARP = {"efpp": 1e-6, "buffer_bytes": 20_000}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def run() -> SimulatedRun:
    made = SimulatedRun(SEED, strategy="exact")
    made.live()
    return made


@pytest.fixture(scope="module")
def lake(run: SimulatedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run.ship(tmp_path_factory.mktemp("exact"))


def received(run: SimulatedRun) -> dict[str, set[bytes]]:
    """By durable subscription, what its client got."""
    return {
        name: {each.body[:MESSAGE_ID_BYTES] for each in client.deliveries} for name, client in run.subscribers.items()
    }


def assert_clean(summary: AuditSummary, run: SimulatedRun) -> None:
    assert summary.findings == []
    assert summary.is_clean
    assert (summary.messages, summary.subscriptions) == (len(run.journal()), len(run.subscribers))
    everything = sum(map(len, received(run).values()))
    # All that clients have is judged, and only what a crash has taken with it nobody can tell.
    assert set(summary.counts) == {"delivered", "in-gap"}
    assert summary.counts["delivered"] + summary.counts["in-gap"] == everything
    assert 0 < summary.counts["in-gap"] < everything / 2


@pytest.mark.live
def test_exact_records_prove_that_a_run_with_crashes_is_clean(
    spark: SparkSession, run: SimulatedRun, lake: Path
) -> None:
    summary = audit_lake(spark, str(lake), RANGE)
    assert_clean(summary, run)
    assert summary.is_exact


@pytest.mark.live
def test_filters_find_nothing_wrong_with_a_run_with_crashes(spark: SparkSession, tmp_path: Path) -> None:
    run = SimulatedRun(SEED + 1, **SHARP)
    run.live()
    summary = audit_lake(spark, str(run.ship(tmp_path)), RANGE)
    assert_clean(summary, run)
    assert not summary.is_exact
    assert 0 < summary.unexpected_by_chance < 1e-2


@pytest.mark.live
def test_faults_planted_in_the_tables_of_a_run_are_found(
    spark: SparkSession, run: SimulatedRun, lake: Path, tmp_path: Path
) -> None:
    harmed = Path(shutil.copytree(lake, tmp_path / "lake"))
    dropped, twice, wrong = plant(harmed)
    summary = audit_lake(spark, str(harmed), RANGE)
    found = {(each["judgement"], each["subscriber"], each["message_id"]) for each in summary.findings}
    assert {each for each in found if each[0] != "unexplained"} == {
        ("lost", "low", dropped),
        ("duplicated", "high", twice),
        ("unexpected", "some", wrong),
    }
    # Of whom the whole history is lost, nothing can be explained that he has acknowledged.
    assert {each[1] for each in found if each[0] == "unexplained"} == {"all"}
    assert summary.by_subscription["all"].keys() == {"unexplained", "in-gap"}
    assert sum(summary.by_subscription["all"].values()) == len(received(run)["all"])
    assert not summary.is_clean


def plant(lake: Path) -> tuple[str, str, str]:
    """One message lost, one delivered twice, one to somebody who never wanted it; and one history is gone."""
    deliveries = [row for row in rows_of(lake, "records") if row["phase"] == "deliver"]
    once = {name: seen_once(deliveries, name) for name in ("low", "high", "passer-by")}
    # The last of them are far behind every crash, and behind several attachments.
    dropped, twice, passed = once["low"][-1], once["high"][-1], once["passer-by"][-1]
    assert number_of(lake, passed) >= 900

    def harm(row: Row) -> list[Row]:
        if row["subscriber_key"] == signed("all") or same(row, dropped):
            return []
        if same(row, twice):
            return [row, {**row, "place": row["place"] + 100_000}]
        if same(row, passed):
            return [row, {**row, "place": row["place"] + 100_000, "subscriber_key": signed("some")}]
        return [row]

    rewrite(lake, harm)
    first, second, third = (str(id_of(row)) for row in (dropped, twice, passed))
    return first, second, third


def rewrite(lake: Path, change: Callable[[Row], list[Row]]) -> None:
    for path in parquet_files(lake, "records"):
        with pq.ParquetFile(path) as file:
            table = file.read()
        rows = [made for row in table.to_pylist() for made in change(row)]
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def seen_once(deliveries: list[Row], name: str) -> list[Row]:
    """The records of what a subscriber got once, in the order of time."""
    own = [row for row in deliveries if row["subscriber_key"] == signed(name)]
    counts = {row["id_low"]: sum(each["id_low"] == row["id_low"] for each in own) for row in own}
    return sorted((row for row in own if counts[row["id_low"]] == 1), key=lambda row: int(row["id_low"]))


def same(row: Row, other: Row) -> bool:
    return all(row[name] == other[name] for name in ("id_high", "id_low", "subscriber_key"))


def signed(name: str) -> int:
    key = subscriber_key(name)
    return key - 2**64 if key >= 2**63 else key


def id_of(row: Row) -> MessageId:
    return MessageId.from_halves(row["id_high"] % 2**64, row["id_low"] % 2**64)


def number_of(lake: Path, row: Row) -> int:
    (found,) = [each for each in rows_of(lake, "publications") if each["message_id"] == str(id_of(row))]
    return int(dict(found["attributes"])["number"])
