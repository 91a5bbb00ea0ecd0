"""The configurations of Table 2 are what the paper says, and brokers accept all of them."""

from __future__ import annotations

import pytest

from penstock.lab.tracking.table import FULL_BYTES, ROW_EFPP, Configuration, configurations, metric_of, row_label
from penstock.tracking.keys import Phase
from penstock.tracking.sizing import TABLE_2


def test_every_row_of_the_paper_is_there_with_its_buffer_and_interval() -> None:
    listed = list(configurations())
    assert len(set(listed)) == len(listed) == 28
    wanted = [("64K-99.999", 10_000, 1), ("64K-95", 10_000, 2), ("1M-99.999", 135_000, 8), ("1M-95", 135_000, 27)]
    assert all(Configuration("bloom", buffer, persist_s, row) in listed for row, buffer, persist_s in wanted)
    assert Configuration("exact", 135_000, 2) in listed


@pytest.mark.parametrize("each", list(configurations()), ids=lambda each: each.metric)
def test_a_broker_can_be_told_every_configuration(each: Configuration) -> None:
    for keep_filling in (False, True):
        settings = each.settings(keep_filling=keep_filling)
        assert settings.strategy == each.strategy
        assert settings.persist_ms == 1_000 * each.persist_s
        shape = settings.options(Phase.PUBLISH).shape
        if each.row:
            assert (shape, settings.keep_filling) == (TABLE_2[each.row], keep_filling)
            assert shape.size_bytes <= each.buffer_bytes
        else:
            assert shape.n == each.buffer_bytes // 16


def test_the_published_bytes_are_those_of_full_filters() -> None:
    for row, shape in TABLE_2.items():
        assert FULL_BYTES[row] == pytest.approx(shape.bytes_per_key, rel=0.001)
    assert ROW_EFPP["64K-99.999"] == 1e-5
    assert ROW_EFPP["1M-95"] == 0.05


def test_names_for_metrics_and_for_people() -> None:
    assert metric_of("64K-99.999") == "64k_99_999"
    assert row_label("64K-99.999") == "64 Kbit, 99.999 %"
    assert Configuration("bloom", 10_000, 1, "64K-99").metric == "64k_99_tp1"
    assert Configuration("exact", 135_000, 2).metric == "exact_135k_tp2"
    assert Configuration("exact", 135_000, 2).label == "exact, 135 K, Tp 2 s"
    assert Configuration("bloom", 10_000, 1, "64K-99").label == "BF 99 %, 10 K, Tp 1 s"
