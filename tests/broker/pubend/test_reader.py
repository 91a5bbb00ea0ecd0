"""Reads of logs: one at a time and pubend, in the order of ticks, until nobody wants anything any more."""

from __future__ import annotations

from penstock.broker.effects import ReadLog
from penstock.broker.pubend.reader import LogReader


def asked(reader: LogReader) -> list[tuple[int, str, int, int]]:
    return [(each.number, each.pubend, each.first, each.last) for each in reader.take_effects()]


def test_what_is_wanted_is_read_with_a_bound() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    (read,) = reader.take_effects()
    assert isinstance(read, ReadLog)
    assert (read.number, read.pubend, read.first, read.last) == (1, "p", 10, 20)
    assert read.bytes_max > 0
    assert reader.take_effects() == []


def test_one_read_of_a_pubend_is_under_way_at_a_time_and_those_of_others_beside_it() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    reader.want("p", 30, 40)
    reader.want("q", 1, 2)
    assert asked(reader) == [(1, "p", 10, 20), (2, "q", 1, 2)]
    read = reader.on_read(1, 20)
    assert read is not None
    assert (read.first, read.last) == (10, 20)
    assert asked(reader) == [(3, "p", 30, 40)]


def test_a_read_that_ended_early_goes_on_where_it_ended() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    asked(reader)
    reader.on_read(1, 14)
    assert asked(reader) == [(2, "p", 15, 20)]
    reader.on_read(2, 20)
    assert asked(reader) == []


def test_a_read_that_found_nothing_is_tried_again() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    asked(reader)
    reader.on_read(1, 9)
    assert asked(reader) == [(2, "p", 10, 20)]


def test_ranges_that_touch_or_overlap_are_read_once() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    asked(reader)
    reader.want("p", 15, 25)
    reader.want("p", 26, 30)
    reader.on_read(1, 20)
    assert asked(reader) == [(2, "p", 21, 30)]
    assert reader.reads == 2


def test_damage_beyond_what_was_asked_is_not_asked_again() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    reader.want("p", 22, 30)
    asked(reader)
    reader.on_read(1, 25)
    assert asked(reader) == [(2, "p", 26, 30)]


def test_an_answer_that_nobody_waits_for_is_nothing() -> None:
    reader = LogReader()
    assert reader.on_read(7, 20) is None
    reader.want("p", 10, 20)
    reader.on_read(1, 20)
    assert reader.on_read(1, 20) is None


def test_less_is_read_at_a_time_where_messages_are_costly_to_match() -> None:
    sizes = []
    for effort in (0, 20, 2_000, 200_000):
        reader = LogReader()
        reader.bound(effort)
        reader.want("p", 10, 20)
        sizes += [each.bytes_max for each in reader.take_effects()]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] < sizes[0] // 50
    assert sizes[3] > 0
