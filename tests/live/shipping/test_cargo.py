"""Rows are gathered by table and day."""

from __future__ import annotations

import pytest

from live.shipping.lakes import DAY_MS, T0
from penstock.live.shipping.cargo import Cargo, day_of, micros
from penstock.model.lake_tables import TELEMETRY, TOPOLOGY


def test_rows_of_one_table_and_day_are_together() -> None:
    cargo = Cargo()
    assert not cargo
    for ms in (T0, T0 + 1, T0 + DAY_MS):
        cargo.add(TOPOLOGY, ms, micros(ms), "start", "")
    cargo.add_block(TELEMETRY, T0, {"at": [1, 2]}, 2)
    found = [(each.table.name, each.day, len(each.rows), len(each.blocks)) for each in cargo]
    assert found == [
        ("topology", "2023-11-14", 2, 0),
        ("topology", "2023-11-15", 1, 0),
        ("telemetry", "2023-11-14", 0, 1),
    ]
    assert cargo.rows == 5


def test_a_parcel_names_its_columns_without_those_of_the_batch() -> None:
    cargo = Cargo()
    cargo.add(TOPOLOGY, T0, micros(T0), "start", "")
    assert [each.names for each in cargo] == [("at", "event", "neighbour")]


@pytest.mark.parametrize(("ms", "day"), [(-5, "1970-01-01"), (0, "1970-01-01"), (2**62, "9999-12-31")])
def test_a_clock_that_is_far_off_still_has_a_day(ms: int, day: str) -> None:
    assert day_of(ms) == day
    assert micros(ms) is not None


def test_no_time_stays_none() -> None:
    assert micros(None) is None
