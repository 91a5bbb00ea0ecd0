from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql.datasource import InputPartition

from penstock.pipeline.source.errors import SourceError
from penstock.pipeline.source.reading import batches, check_lost, read_split
from penstock.pipeline.source.splits import TickSplit
from penstock.selectors import EVERYTHING, Selector
from pipeline.source.support import T0, FakeLog, body, columns, source_options

WANTED = columns(tick="bigint", number="bigint")


def read(log: FakeLog, split: TickSplit, selector: Selector = EVERYTHING, **changes: str) -> list[tuple[int, int]]:
    found = batches(log, split, columns=WANTED, selector=selector, options=source_options(**changes))
    return [(row["tick"], row["number"]) for batch in found for row in batch.to_pylist()]


def filled(count: int) -> FakeLog:
    log = FakeLog()
    log.fill("a", [T0 + 10 * place for place in range(count)], latest=T0 + 10_000)
    return log


def test_a_split_reads_its_ticks_and_no_others() -> None:
    log = filled(20)
    assert read(log, TickSplit("a", T0 + 5, T0 + 55)) == [(T0 + 10 * place, place) for place in range(1, 6)]
    assert read(log, TickSplit("a", T0 + 10, T0 + 10)) == [(T0 + 10, 1)]
    assert read(log, TickSplit("a", T0 + 11, T0 + 19)) == []
    assert log.closed == log.reads == 3


def test_the_selector_is_the_brokers_to_apply() -> None:
    assert read(filled(20), TickSplit("a", T0, T0 + 9_999), Selector.parse("number > 17")) == [
        (T0 + 180, 18),
        (T0 + 190, 19),
    ]


def test_many_parts_become_few_batches() -> None:
    log = filled(20_000)
    log.spans["a"] = type(log.spans["a"])(T0, T0 + 10**6)
    log.part_rows = 100
    split = TickSplit("a", T0, T0 + 10**6)
    sizes = [len(each) for each in batches(log, split, columns=WANTED, selector=EVERYTHING, options=source_options())]
    assert sum(sizes) == 20_000
    assert sizes == [8_200, 8_200, 3_600]


def test_large_messages_make_small_batches() -> None:
    log = FakeLog(part_rows=1)
    log.fill("a", [T0 + place for place in range(5)])
    log.messages["a"] = [(tick, body({"number": 1}, bytes(2 << 20))) for tick, _ in log.messages["a"]]
    split = TickSplit("a", T0, T0 + 4)
    found = batches(log, split, columns=WANTED, selector=EVERYTHING, options=source_options())
    assert [len(each) for each in found] == [2, 2, 1]


def test_lost_ticks_fail_the_job_or_are_skipped() -> None:
    log = filled(4)
    with pytest.raises(SourceError, match=r"pubend a no longer has messages from .*Z\+.* missing=skip"):
        read(log, TickSplit("a", T0 - 5, T0 + 30))
    assert [number for _, number in read(log, TickSplit("a", T0 - 5, T0 + 30), missing="skip")] == [0, 1, 2, 3]


def test_many_lost_ranges_are_named_in_part() -> None:
    lost: Sequence[tuple[int, int]] = [(T0 + 4 * place, T0 + 4 * place + 1) for place in range(7)]
    with pytest.raises(SourceError, match="and 2 more ranges: they were trimmed"):
        check_lost("a", lost)
    check_lost("a", ())


def test_spark_may_have_nothing_to_read() -> None:
    assert list(read_split(source_options(), WANTED, EVERYTHING, InputPartition(None))) == []
