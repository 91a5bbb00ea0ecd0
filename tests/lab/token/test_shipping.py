"""The experiment ``token-shipping``: what is read from logs and the lake, by hand; and the whole, with two brokers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.lab import run_experiment
from penstock.lab.token.shipping import TOKEN_SHIPPING, Shipment, judge_lake, shipments
from penstock.model.message_id import MessageId, MessageIdSource

LOG = """
2026-01-31T12:00:00.000Z info    started broker=b1 address=127.0.0.1:1
2026-01-31T12:00:01.000Z info    operated broker=b1 fence=5/b1.1:1/1 begun_ms=100 ended_ms=130
2026-01-31T12:00:02.000Z info    operated broker=b1 fence=5/b1.1:1/4 begun_ms=900 ended_ms=905
"""


def test_operations_are_read_from_a_log() -> None:
    assert shipments(LOG) == [Shipment("b1", 100, 130), Shipment("b1", 900, 905)]


def write(lake: Path, table: str, name: str, rows: list[dict[str, object]]) -> None:
    folder = lake / table / "date=2026-01-31" / "broker=b0"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")


def record(message_id: MessageId, generation: int) -> dict[str, object]:
    raw = message_id.to_bytes()
    high, low = (int.from_bytes(half, signed=True) for half in (raw[:8], raw[8:]))
    batch = {"incarnation": 1, "sequence": generation, "history": "publish/1", "filter_id": 1, "generation": generation}
    return {**batch, "id_high": high, "id_low": low}


def test_the_newest_state_of_a_block_counts_and_what_is_missing_or_twice_is_noticed(tmp_path: Path) -> None:
    source = MessageIdSource(publisher=1, broker=1)
    one, two, three = (source.next(5) for _ in range(3))
    write(tmp_path, "records", "a", [record(one, 1)])
    write(tmp_path, "records", "b", [record(one, 2), record(two, 2)])
    assert judge_lake(tmp_path, [one, two]) == (0, 0)
    assert judge_lake(tmp_path, [one, two, three]) == (1, 0)
    write(tmp_path, "records", "c", [record(one, 2)])
    assert judge_lake(tmp_path, [one, two]) == (0, 1)
    hidden = tmp_path / "_staging" / "broker=b0" / "half.parquet"
    hidden.parent.mkdir(parents=True)
    hidden.write_bytes(b"half a file")
    assert judge_lake(tmp_path, [one, two]) == (0, 1)
    sample = {"incarnation": 1, "sequence": 1, "metric": "m", "labels": [("a", "b")]}
    write(tmp_path, "telemetry", "a", [sample])
    write(tmp_path, "telemetry", "b", [sample])
    assert judge_lake(tmp_path, [one, two]) == (0, 2)


@pytest.mark.live
def test_brokers_ship_in_turn_and_nothing_is_lost_when_the_holder_is_killed(tmp_path: Path) -> None:
    settings = ["brokers=2", "kills=1", "interval_ms=400", "turn_ms=100"]
    measured = run_experiment(TOKEN_SHIPPING, settings, seed=1, figures=tmp_path).measured
    assert (measured["lost"], measured["twice"], measured["kills"]) == (0, 0, 1)
    assert measured["published"] > 0
    assert measured["interval_min"] >= 0.99
    assert measured["shipments"] >= 6
    assert (tmp_path / "token-shipping.png").stat().st_size > 10_000
