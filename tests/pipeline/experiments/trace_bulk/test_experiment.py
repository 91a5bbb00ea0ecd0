"""Traces beside the truth: what is missing and what is too much is counted (on Spark: ``lab run trace-bulk``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from penstock.pipeline.experiments.trace_bulk.experiment import TRACE_BULK, _draw, compare_traces  # noqa: E402
from penstock.pipeline.experiments.trace_bulk.lake import (  # noqa: E402
    TracedOverlay,
    slabs,
    write_lake,
)
from penstock.pipeline.trace.group import Group  # noqa: E402
from penstock.tracking.settings import TrackingSettings  # noqa: E402
from pipeline.trace.recorded import facts_in, filters_in  # noqa: E402

OVERLAY = TracedOverlay(3, brokers=6, subscribers=36, topics=20, origins=2)


def traces(folder: Path, *, harm: int = 0) -> Path:
    """The traces of a small lake; with harm, a receiver too few and one too many."""
    write_lake(folder / "lake", OVERLAY, TrackingSettings(efpp=0.01, subscribers_checked=6), 2_000)
    facts = facts_in(folder / "lake")
    filters = filters_in(folder / "lake", facts)
    (folder / "out").mkdir()
    for number, (origin, high, low) in enumerate(slabs(OVERLAY, 2_000)):
        times = low >> np.uint64(16)
        group = Group(facts, filters, OVERLAY.number(origin), (int(times.min()), int(times.max())))
        (found,) = group.trace(high, low)
        offsets = np.concatenate(([0], np.cumsum(found.counts))).astype(np.int32)
        receivers = found.receivers.astype(np.int32)
        if harm and not number:
            receivers[0] = next(each for each in range(36) if each not in receivers[: offsets[1]])
        columns = {
            "id_high": high.view(np.int64)[found.rows],
            "id_low": low.view(np.int64)[found.rows],
            "receivers": pa.ListArray.from_arrays(pa.array(offsets), pa.array(receivers)),
            "checked": found.checked.astype(np.int32),
            "false_receivers": found.expected,
        }
        pq.write_table(pa.table(columns), folder / "out" / f"{number}.parquet")
    return folder / "out"


def test_a_bulk_trace_misses_nobody(tmp_path: Path) -> None:
    truth = compare_traces(OVERLAY, traces(tmp_path))
    assert (truth.traces, truth.false_negatives) == (2_000, 0)
    assert truth.receivers == 2_000 * 10
    assert truth.false_positives <= 10 * truth.expected + 5
    assert truth.negative > 0


def test_a_receiver_that_is_exchanged_is_noticed_twice(tmp_path: Path) -> None:
    truth = compare_traces(OVERLAY, traces(tmp_path, harm=1))
    assert truth.false_negatives == 1
    assert truth.false_positives >= 1


def test_the_chart_has_a_bar_for_each_job() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    measured = {job: {"ids": 1_000, "cpu_s": 0.01} for job in ("bulk", "filterwise", "exact")}
    _draw(figure, measured, {"ids": 10_000, "cpu_s": 0.05})
    assert len(figure.axes[0].patches) == 4


def test_its_metrics_are_declared() -> None:
    assert TRACE_BULK.published["false_negatives"] == 0
