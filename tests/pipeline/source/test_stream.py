from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.client.reading import PubendSpan
from penstock.model.tick import tick_at
from penstock.pipeline.source.errors import SourceError, SourceOptionError
from penstock.pipeline.source.positions import BEGINNING, EARLIEST, LATEST, Position, Vector
from penstock.pipeline.source.reading import batches
from penstock.pipeline.source.splits import TickSplit
from penstock.pipeline.source.stream import PenstockStreamReader
from penstock.selectors import Selector
from penstock.session.errors import ConnectionFailedError
from pipeline.source.support import SECOND, T0, FakeLink, FakeLog, columns, source_options

AT_T0 = Position("ticks", ticks=(("a", T0),))
WANTED = columns(pubend="string", tick="bigint", number="bigint")


class Stream:
    """A reader on a log in memory, and Spark's part in it."""

    def __init__(self, log: FakeLog, **changes: Any) -> None:
        self.log, self.options, self.pauses = log, source_options(**{"start": EARLIEST, **changes}), 0
        self.link = FakeLink(log)
        self.reader = PenstockStreamReader(self.options, WANTED, link=self.link, pause=self._pause)
        self.position: Vector = self.reader.initialOffset()

    def latest(self) -> Vector:
        return self.reader.latestOffset(self.position, self.reader.getDefaultReadLimit())

    def step(self) -> list[tuple[str, int]] | None:
        """One micro-batch, if there is a reason for one."""
        end = self.latest()
        assert list(end) == sorted(end)
        if json.dumps(end) == json.dumps(self.position):
            return None
        rows = self.rows(self.position, end)
        self.position = end
        return rows

    def rows(self, start: Vector, end: Vector) -> list[tuple[str, int]]:
        found = []
        for split in self.reader.partitions(start, end):
            assert isinstance(split, TickSplit)
            some = batches(self.log, split, columns=WANTED, selector=self.options.selector, options=self.options)
            found += [(row["pubend"], row["number"]) for batch in some for row in batch.to_pylist()]
        return found

    def _pause(self, _seconds: float) -> None:
        self.pauses += 1


def filled(count: int, *, latest: int | None = None) -> FakeLog:
    log = FakeLog()
    log.fill("a", [T0 + place for place in range(count)], latest=latest)
    return log


def test_the_first_micro_batch_writes_down_where_the_stream_begins_and_reads_nothing() -> None:
    stream = Stream(filled(5))
    assert stream.position == {}
    assert stream.step() == []
    assert stream.position == {"a": BEGINNING}
    assert stream.step() == [("a", number) for number in range(5)]


@pytest.mark.parametrize(
    ("start", "position"),
    [(EARLIEST, BEGINNING), (LATEST, T0 + 5), (Position("ticks", ticks=(("a", T0 + 2),)), T0 + 2), (None, T0 + 5)],
)
def test_a_stream_begins_where_it_is_told(start: Position, position: int) -> None:
    stream = Stream(filled(5), start=start)
    stream.step()
    assert stream.position == {"a": position}


def test_a_micro_batch_can_be_read_again_exactly() -> None:
    stream = Stream(filled(5))
    stream.step()
    start, end = stream.position, stream.latest()
    again = Stream(filled(9))
    assert again.rows(start, end) == stream.rows(start, end) == [("a", number) for number in range(5)]


def test_nothing_new_is_no_reason_for_a_micro_batch_until_the_silence_is_long() -> None:
    stream = Stream(filled(3), silence_ms=10_000)
    stream.step()
    stream.step()
    stream.log.spans["a"] = PubendSpan(T0, T0 + 9 * SECOND)
    assert stream.step() is None
    assert stream.pauses == 1
    stream.log.spans["a"] = PubendSpan(T0, T0 + 11 * SECOND)
    assert stream.step() == []
    assert stream.position == {"a": T0 + 11 * SECOND + 1}


def test_a_row_is_a_reason_at_once_but_only_if_it_is_selected() -> None:
    stream = Stream(filled(3), selector=Selector.parse("number = 7"), start=AT_T0)
    stream.step()
    assert stream.step() is None
    stream.log.fill("a", [T0 + place for place in range(8)])
    assert stream.step() == [("a", 7)]


def test_rows_are_bounded_also_within_one_millisecond() -> None:
    stream = Stream(filled(10), rows_max=4)
    steps = [stream.step() for _ in range(5)]
    assert [None if step is None else len(step) for step in steps] == [0, 4, 4, 2, None]
    assert stream.reader.getDefaultReadLimit() == ReadMaxRows(4)
    assert Stream(filled(1)).reader.getDefaultReadLimit() == ReadAllAvailable()


def test_the_engine_may_ask_for_everything() -> None:
    stream = Stream(filled(10), rows_max=4)
    stream.step()
    assert stream.reader.latestOffset(stream.position, ReadAllAvailable()) == {"a": T0 + 10}


def test_bounded_rows_also_wait_for_a_long_silence() -> None:
    stream = Stream(filled(0, latest=T0 + 9 * SECOND), rows_max=4, start=AT_T0)
    stream.step()
    assert stream.step() is None
    stream.log.spans["a"] = PubendSpan(T0, T0 + 11 * SECOND)
    assert stream.step() == []


def test_available_now_ends_with_what_was_there() -> None:
    stream = Stream(filled(10), rows_max=4)
    stream.reader.prepareForTriggerAvailableNow()
    stream.log.fill("a", [T0 + place for place in range(20)])
    stream.log.fill("later", [T0 + place for place in range(20)])
    read: list[tuple[str, int]] = []
    for _ in range(20):
        step = stream.step()
        if step is None:
            break
        read += step
    assert read == [("a", number) for number in range(10)]
    assert stream.position == {"a": T0 + 10}


def test_available_now_takes_silence_to_its_end() -> None:
    stream = Stream(filled(0, latest=T0 + 3), start=AT_T0)
    stream.reader.prepareForTriggerAvailableNow()
    assert [stream.step(), stream.step(), stream.step()] == [[], [], None]
    assert stream.position == {"a": T0 + 4}


def test_a_pubend_that_appears_later_starts_at_its_first_tick() -> None:
    stream = Stream(filled(2), start=LATEST)
    stream.step()
    stream.log.fill("new", [T0 + 4, T0 + 5], earliest=T0 + 3)
    assert stream.step() == []
    assert stream.position["new"] == BEGINNING
    assert stream.step() == [("new", 0), ("new", 1)]


def test_a_beginning_that_is_trimmed_meanwhile_is_not_lost_but_a_position_is() -> None:
    stream = Stream(filled(6), rows_max=2)
    stream.step()
    stream.log.spans["a"] = PubendSpan(T0 + 1, T0 + 5)
    assert stream.step() == [("a", 1), ("a", 2)]
    stream.log.spans["a"] = PubendSpan(T0 + 5, T0 + 5)
    with pytest.raises(SourceError, match="pubend a no longer has messages"):
        stream.step()


def test_a_pubend_out_of_reach_keeps_its_position_and_fails_nothing() -> None:
    stream = Stream(filled(2))
    stream.log.fill("b", [T0, T0 + 1])
    stream.step()
    stream.log.unreachable = ("b",)
    assert stream.step() == [("a", 0), ("a", 1)]
    assert stream.position == {"a": T0 + 2, "b": BEGINNING}
    surveys = stream.log.surveys
    assert stream.reader.reportLatestOffset() == {"a": T0 + 2}
    assert stream.log.surveys == surveys
    stream.log.unreachable = ()
    assert stream.step() == [("b", 0), ("b", 1)]


def test_a_pubend_out_of_reach_at_the_start_begins_when_it_answers() -> None:
    stream = Stream(filled(2))
    stream.log.unreachable = ("a",)
    assert (stream.step(), stream.step()) == ([], None)
    stream.log.unreachable = ()
    assert stream.step() == [("a", 0), ("a", 1)]
    late = Stream(filled(2), start=Position("time", ms=5))
    late.log.unreachable = ("a",)
    late.step()
    assert late.position == {"a": tick_at(5)}


def test_a_pubend_that_disappears_is_kept() -> None:
    stream = Stream(filled(2))
    stream.step()
    stream.step()
    del stream.log.spans["a"]
    stream.log.fill("b", [T0])
    stream.step()
    assert stream.position == {"a": T0 + 2, "b": BEGINNING}


def test_the_report_of_the_latest_position_never_fails() -> None:
    stream = Stream(filled(2))
    assert stream.reader.reportLatestOffset() == {"a": T0 + 2}
    stream.log.is_down = True
    assert stream.reader.reportLatestOffset() is None
    with pytest.raises(SourceError, match="nobody is there"):
        stream.latest()


def test_positions_and_ends_that_cannot_be_are_refused() -> None:
    with pytest.raises(SourceOptionError, match="names pubend 'zz'"):
        Stream(filled(1), start=Position("ticks", ticks=(("zz", 1),))).step()
    with pytest.raises(SourceOptionError, match="endingPosition"):
        Stream(filled(1), end=LATEST)


def test_a_reader_travels_without_its_connection_and_closes_it_when_it_stops() -> None:
    reader = PenstockStreamReader(source_options(), WANTED)
    copy = pickle.loads(pickle.dumps(reader))  # noqa: S301
    assert copy.initialOffset() == {}
    stream = Stream(filled(1))
    stream.reader.stop()
    assert stream.link.closed == 1
    with pytest.raises(ConnectionFailedError):
        FakeLog(is_down=True).survey()
