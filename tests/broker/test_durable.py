"""What a commit may change."""

from __future__ import annotations

from live.store.kept_support import filter_record, value_of
from penstock.broker.durable import (
    SMALL_RECORD_BYTES_MAX,
    Append,
    KeepRecord,
    SetValue,
    Trim,
    needed_at_start,
    parts_of,
    space_bytes,
)
from penstock.model.tick import Tick
from penstock.tracking.stored import HEADER_BYTES_MAX, decode_header


def test_an_append_needs_no_more_than_a_pubend() -> None:
    assert Append("p") == Append("p", (), None, {})


def test_a_trim_is_bounded() -> None:
    assert Trim("p", Tick(1)).batches_max > 0


def test_of_a_closed_filter_the_header_is_needed_at_a_start_and_of_an_open_one_all() -> None:
    closed, open_ = filter_record(1), filter_record(1, is_open=True)
    start = needed_at_start(closed.name, value_of(closed))
    assert value_of(closed).startswith(start)
    assert repr(decode_header(start)) == repr(decode_header(value_of(closed)))
    assert len(start) < 200
    assert needed_at_start(open_.name, value_of(open_)) == open_.value
    assert needed_at_start("alias/" + closed.name, value_of(closed)) == closed.value


def test_a_filter_that_cannot_be_read_stays_so_at_a_start() -> None:
    damaged = b"x" + value_of(filter_record(1, size_bytes=20_000))[1:]
    start = needed_at_start("filter/x", damaged)
    assert (start, len(start)) == (damaged[:HEADER_BYTES_MAX], HEADER_BYTES_MAX)


def test_messages_and_large_records_need_space() -> None:
    large = bytes(SMALL_RECORD_BYTES_MAX + 1)
    changes = (Append("p", [(Tick(1), b"abc"), (Tick(2), b"d")]), KeepRecord("a", large))
    assert [space_bytes(each) for each in changes] == [4, len(large)]
    without = (KeepRecord("a", large[1:]), KeepRecord("a", None), SetValue("v", large), Trim("p", Tick(1)))
    assert [space_bytes(each) for each in without] == [0, 0, 0, 0]


def test_a_recovered_log_is_divided_where_its_bytes_are() -> None:
    assert parts_of([], 0) == ()
    assert parts_of([(7, 15)], 15) == ((7, 15),)
    assert parts_of([(tick, 10) for tick in range(1, 129)], 1_280) == tuple((tick, 20) for tick in range(2, 129, 2))
    large = tuple((tick, 40_000) for tick in range(1, 201))
    assert parts_of(large, 8_000_000) == large
