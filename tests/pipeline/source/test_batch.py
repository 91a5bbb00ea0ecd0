from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan

from penstock.pipeline.source.batch import PenstockReader, PushingReader
from penstock.pipeline.source.errors import SourceError, SourceOptionError
from penstock.pipeline.source.options import SourceOptions
from penstock.pipeline.source.positions import Position
from penstock.pipeline.source.splits import TickSplit
from pipeline.source.support import SECOND, T0, FakeLog, columns, source_options

WANTED = columns(pubend="string", tick="bigint", number="bigint")


def log() -> FakeLog:
    made = FakeLog()
    made.fill("a", [T0 + place for place in range(10)], latest=T0 + 99)
    made.fill("b", [T0 + place for place in range(10)], latest=T0 + 199)
    return made


def planned(options: SourceOptions, made: FakeLog | None = None) -> list[TickSplit]:
    return PenstockReader(options, WANTED)._planned(made or log(), now_ms=0)


def test_a_batch_reads_everything_there_is() -> None:
    assert planned(source_options()) == [TickSplit("a", 0, T0 + 99), TickSplit("b", 0, T0 + 199)]


def test_a_batch_reads_from_position_to_position_of_the_pubends_wanted() -> None:
    start, end = Position("ticks", ticks=(("a", T0 + 5),)), Position("ticks", ticks=(("a", T0 + 9), ("b", 0)))
    assert planned(source_options(start=start, end=end)) == [TickSplit("a", T0 + 5, T0 + 8)]
    assert planned(source_options(pubends=("b",))) == [TickSplit("b", 0, T0 + 199)]
    with pytest.raises(SourceOptionError, match="names pubend 'zz'"):
        planned(source_options(pubends=("zz",)))


def test_a_position_that_was_trimmed_away_fails_before_any_task_runs() -> None:
    start = Position("ticks", ticks=(("a", T0 - 7),))
    with pytest.raises(SourceError, match=r"pubend a no longer has messages from .* to "):
        planned(source_options(start=start))
    assert planned(source_options(start=start, missing="skip"))[0] == TickSplit("a", T0 - 7, T0 + 99)


def test_a_table_without_some_pubends_is_not_made() -> None:
    made = log()
    made.unreachable = ("b",)
    with pytest.raises(SourceError, match="pubends b cannot be reached, and without them the table is not complete"):
        planned(source_options(), made)
    assert planned(source_options(pubends=("a",)), made) == [TickSplit("a", 0, T0 + 99)]
    reader = PushingReader(source_options(), WANTED)
    reader.pushFilters([EqualTo(("pubend",), "a")])
    assert reader._planned(made, now_ms=0) == [TickSplit("a", 0, T0 + 99)]


def test_filters_narrow_the_range_and_stay_with_spark() -> None:
    reader = PushingReader(source_options(), WANTED)
    filters = [GreaterThanOrEqual(("tick",), T0 + 150), LessThan(("tick",), T0 + 160), EqualTo(("number",), 3)]
    assert list(reader.pushFilters(filters)) == filters
    assert reader._planned(log(), now_ms=0) == [TickSplit("b", T0 + 150, T0 + 159)]
    assert str(reader._pushed.selector) == "number = 3"
    strict = PushingReader(source_options(mismatch="fail"), WANTED)
    strict.pushFilters(filters)
    assert str(strict._pushed.selector) == "TRUE"


def test_a_long_log_is_split() -> None:
    made = FakeLog()
    made.fill("a", [T0 + place * SECOND for place in range(9)])
    splits = planned(source_options(splits_max=3), made)
    assert len(splits) == 3
    assert (splits[0].first, splits[-1].last) == (0, T0 + 8 * SECOND)


def test_a_reader_travels_with_its_filters() -> None:
    reader = PushingReader(source_options(), WANTED)
    reader.pushFilters([EqualTo(("number",), 3)])
    copy = pickle.loads(pickle.dumps(reader))  # noqa: S301
    assert copy._pushed == reader._pushed
