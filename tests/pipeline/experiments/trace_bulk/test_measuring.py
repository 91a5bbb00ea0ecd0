"""The measuring of the bulk trace: what is beside it gives the same answers, and processor time is counted."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from penstock.pipeline.experiments.trace_bulk.measuring import filterwise_group, tree_cpu_s  # noqa: E402
from pipeline.trace.recorded import RecordedOverlay, facts_in, filter_rows  # noqa: E402


def test_filters_one_by_one_find_what_traces_find(tmp_path: Path) -> None:
    overlay = RecordedOverlay(Random(4), brokers=4)
    overlay.run(60, origins=(1,))
    overlay.rest()
    lake = overlay.ship(tmp_path)
    facts = facts_in(lake)
    columns = [
        np.array(each, dtype=np.uint64).view(np.int64) for each in zip(*(i.halves() for i in overlay.ids), strict=True)
    ]
    ids = pa.table(columns, names=["id_high", "id_low"])
    rows = filter_rows(lake)
    found = filterwise_group(facts)(None, ids, pa.Table.from_pylist(rows)).to_pylist()
    for message_id, row in zip(overlay.ids, found, strict=True):
        trace = overlay.trace(message_id)
        assert set(trace.routed_by) <= set(row["routed"])
        assert {name for _, name in trace.receivers} <= set(row["received"])


def test_processor_time_is_that_of_all_processes() -> None:
    before = tree_cpu_s()
    total = sum(number * number for number in range(400_000))
    assert total
    assert tree_cpu_s() >= before > 0
