"""Audits of made-up runs: each planted fault is found; clean runs are those of ``test_scenario_simulated``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from live.shipping.lakes import Fuse, breaking_writer, position_value
from penstock.live.shipping.cargo import day_of
from penstock.live.shipping.writer import Load
from penstock.model.errors import MisuseError
from penstock.model.lake_tables import PUBLICATIONS
from penstock.model.message_id import MessageId
from penstock.pipeline.audit import audit_lake
from penstock.pipeline.audit.job import AuditRange
from penstock.pipeline.lake import arrow_schema
from pipeline.trace.recorded import SLACK_MS, T0, RecordedOverlay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBSCRIPTIONS = {"orders": (2, "number < 50", True), "all": (3, "TRUE", True), "lonely": (4, "number >= 50", True)}
PASSING = {"passer-by": (3, "number >= 90", False)}
DROPPED, TWICE, WRONG = 7, 31, 60


@dataclass
class Run:
    """A run of one pubend, which is archived, with faults; all durable subscriptions acknowledge everything."""

    settings: dict[str, Any]
    overlay: RecordedOverlay = field(init=False)
    messages: list[tuple[MessageId, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.overlay = RecordedOverlay(Random(5), brokers=4, subscribers=0, **self.settings)
        for name in (*SUBSCRIPTIONS, *PASSING):
            self.attach(name, T0 << 16)
        for number in range(100):
            self.publish(number)
            self.overlay.pass_ms(12)
        self.overlay.rest()

    def attach(self, name: str, start: int) -> None:
        home, selector, durable = {**SUBSCRIPTIONS, **PASSING}[name]
        node = self.overlay.nodes[home]
        number, keeps = node.attachments.attach(
            name, {"p": start}, now_ms=self.overlay.now_ms, selector=selector, durable=durable
        )
        node.subscribers[name] = number
        node.keep(keeps)

    def wants(self, name: str, value: int) -> bool:
        return {"orders": value < 50, "all": True, "lonely": value >= 50, "passer-by": value >= 90}[name]

    def publish(self, number: int) -> None:
        now_ms = self.overlay.now_ms
        message_id = MessageId(3, 1, now_ms, number)
        self.messages.append((message_id, now_ms << 16 | number, number))
        self.overlay.nodes[1].tracking.record_published(message_id.to_bytes(), now_ms=now_ms)
        for each in (2, 3, 4):
            self.overlay.nodes[each].tracking.record_routed(1, message_id.to_bytes(), now_ms=now_ms)
        for name, (home, _, _) in {**SUBSCRIPTIONS, **PASSING}.items():
            times = int(self.wants(name, number))
            times -= (name, number) == ("orders", DROPPED)
            times += (name, number) in (("all", TWICE), ("orders", WRONG))
            for _ in range(times):
                self.overlay.nodes[home].deliver(message_id, [name], now_ms)

    def ship(self, folder: Path) -> Path:
        values = self.overlay.nodes[4].values
        for name in [each for each in values if each.startswith("filter/deliver")]:
            del values[name]
        lake = self.overlay.ship(folder)
        writer = breaking_writer(folder / "b1", Fuse(), broker="b1")
        writer.open(incarnation=2, kept=(), positions=(), now_ms=self.overlay.now_ms)
        last = self.messages[-1][1]
        positions: dict[str, bytes | None] = {f"durable/p/{name}": position_value(last) for name in SUBSCRIPTIONS}
        writer.ship(Load(positions=positions), now_ms=self.overlay.now_ms)
        writer.close()
        place = lake / f"publications/date={day_of(T0)}/pubend=p"
        place.mkdir(parents=True)
        rows = [
            {
                "message_id": str(message_id),
                "tick": tick,
                "published_at": message_id.timestamp_ms * 1_000,
                "attributes": [("number", str(value))],
                "payload": b"",
            }
            for message_id, tick, value in self.messages
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(PUBLICATIONS)), place / "x.parquet")
        return lake

    def name_of(self, number: int) -> str:
        return str(self.messages[number][0])


RANGE = AuditRange(T0 - 1_000, T0 + 100_000)
EXACT: dict[str, Any] = {"strategy": "exact"}
SHARP: dict[str, Any] = {"shape": None, "efpp": 1e-6, "buffer_bytes": 10_000}


def test_each_planted_fault_is_proven_by_exact_records(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(EXACT)
    summary = audit_lake(spark, str(run.ship(tmp_path)), RANGE, slack_ms=SLACK_MS)
    found = {(each["judgement"], each["subscriber"], each["message_id"]) for each in summary.findings}
    assert {each for each in found if each[0] != "unexplained"} == {
        ("lost", "orders", run.name_of(DROPPED)),
        ("duplicated", "all", run.name_of(TWICE)),
        ("unexpected", "orders", run.name_of(WRONG)),
    }
    assert {each[1] for each in found if each[0] == "unexplained"} == {"lonely"}
    assert summary.is_exact
    assert not summary.is_clean
    # The last message is not acknowledged yet.
    assert summary.counts == {
        "delivered": 49 + 99, "outstanding": 2, "lost": 1, "duplicated": 1, "unexpected": 1, "unexplained": 49,
    }  # fmt: skip
    assert (summary.messages, summary.subscriptions) == (100, 3)


def test_filters_show_all_but_repetitions(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(SHARP)
    summary = audit_lake(spark, str(run.ship(tmp_path)), RANGE, slack_ms=SLACK_MS)
    found = {(each["judgement"], each["subscriber"], each["message_id"]) for each in summary.findings}
    assert {each for each in found if each[0] != "unexplained"} == {
        ("lost", "orders", run.name_of(DROPPED)),
        ("unexpected", "orders", run.name_of(WRONG)),
    }
    assert summary.counts["unexplained"] == 49
    assert not summary.is_exact
    assert 0 < summary.unexpected_by_chance < 1e-3
    assert not summary.is_clean


def test_a_time_without_messages_has_nothing_to_find(spark: SparkSession, tmp_path: Path) -> None:
    lake = Run(EXACT).ship(tmp_path)
    summary = audit_lake(spark, str(lake), AuditRange(5, 1_000), slack_ms=SLACK_MS)
    assert (summary.messages, summary.subscriptions, summary.is_clean) == (0, 3, True)
    with pytest.raises(MisuseError, match="has no time in it"):
        AuditRange(5, 5)
