"""Lakes for tests of jobs: tables with rows as they are wanted, in files as brokers and the archive write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.live.shipping.arrow import arrow_schema
from penstock.model.lake_tables import LakeTable, find_table, partition_path
from penstock.model.message_id import MessageId
from penstock.model.tick import tick_at
from penstock.model.values import Attributes
from penstock.pipeline.source.decoding import text_of
from penstock.sim.workloads import QuoteWorkload

T0 = datetime(2026, 11, 15, 12, tzinfo=UTC)
T0_MS = 1_794_744_000_000
DATE = "2026-11-15"


def put(lake: Path, name: str, rows: Sequence[Mapping[str, Any]], *, file: str = "f", **partition: str) -> Path:
    """Write rows into a file of a table, with null for what they do not have."""
    table: LakeTable = find_table(name)
    values = {"date": DATE, **partition}
    target = lake / name / partition_path(table, values) / f"{file}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    schema = arrow_schema(table)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), target)
    return target


def publication(place: int, attributes: Attributes, *, step_ms: int = 1000, payload: bytes = b"") -> dict[str, Any]:
    """An archived message, so many steps after noon."""
    ms = T0_MS + place * step_ms
    return {
        "message_id": str(MessageId(1, 1, ms, place % 65_536)),
        "tick": int(tick_at(ms)),
        "published_at": T0 + timedelta(milliseconds=place * step_ms),
        "attributes": [(name, text_of(value)) for name, value in attributes.items()],
        "payload": payload,
    }


def subscription(number: int, selector: str | None, *, sequence: int = 1, ended: bool = False) -> dict[str, Any]:
    """A subscription as its broker ships it."""
    return {
        "incarnation": 1,
        "sequence": sequence,
        "number": number,
        "subscriber": f"s{number}",
        "is_durable": number % 2 == 0,
        "selector": selector,
        "began_at": T0,
        "ended_at": T0 if ended else None,
        "starts": [],
        "ends": [],
    }


def quote_lake(lake: Path, *, seed: int = 1, messages: int = 600, subscriptions: int = 60) -> QuoteWorkload:
    """Quotes at a pubend, and subscriptions at two brokers."""
    workload = QuoteWorkload(Random(seed), days=100)
    quotes = [publication(place, quote, payload=b"x" * 10) for place, quote in enumerate(workload.sample(messages))]
    for part in range(4):
        put(lake, "publications", quotes[part::4], file=f"f{part}", pubend="q")
    wanted = [subscription(number, text) for number, text in enumerate(workload.subscriptions(subscriptions))]
    put(lake, "subscriptions", wanted[::2], broker="b1")
    put(lake, "subscriptions", wanted[1::2], broker="b2")
    return workload


def sample(step: int, metric: str, value: float, *, life: int = 1, **labels: str) -> dict[str, Any]:
    """A figure of a broker, so many times ten seconds after noon."""
    at = T0 + timedelta(seconds=10 * step)
    shown = list(labels.items())
    return {"incarnation": life, "sequence": step, "at": at, "metric": metric, "labels": shown, "value": value}


def telemetry_lake(lake: Path) -> None:
    """Ten minutes of two brokers: one starts anew, is congested for a while, and balances twice."""
    rows: list[dict[str, Any]] = []
    for step in range(60):
        life = 1 if step < 30 else 2
        rows.append(sample(step, "penstock_published_total", 100.0 * (step if life == 1 else step - 30), life=life))
        rows.append(sample(step, "penstock_pubend_rate", 10.0 + step % 7, life=life, pubend="q"))
        rows.append(sample(step, "penstock_pubend_limited", float(20 <= step < 30), life=life, pubend="q"))
        state = "BUSY" if step in (40, 41, 42, 50) else "OK"
        names = {"mechanism": "balancing", "figure": "state", "is": state}
        rows.append(sample(step, "penstock_mechanism_state", 1.0, life=life, **names))
        figures = {"mechanism": "balancing", "figure": "counts.sessions"}
        rows.append(sample(step, "penstock_mechanism", float(step >= 40) + float(step >= 50), life=life, **figures))
        holding = {"mechanism": "token", "figure": "holding"}
        rows.append(sample(step, "penstock_mechanism", float(step == 5), life=life, **holding))
    put(lake, "telemetry", rows, broker="b1")
    # The last batch was shipped twice, as after the loss of a ledger.
    put(lake, "telemetry", [{**row, "sequence": 1000 + row["sequence"]} for row in rows[-5:]], broker="b1", file="g")
    lags = [sample(step, "penstock_host_lag_seconds", step / 10, pubend="q", host="b2") for step in range(60)]
    put(lake, "telemetry", lags, broker="b2")
