"""Reads of logs: one at a time and pubend, in the order of ticks, handed out in parts until all is taken."""

from __future__ import annotations

from penstock.broker.effects import ReadLog
from penstock.broker.pubend.reader import Found, LogReader
from penstock.model.tick import Tick, TickRange


def asked(reader: LogReader) -> list[tuple[int, str, int, int]]:
    return [(each.number, each.pubend, each.first, each.last) for each in reader.take_effects()]


def found(reader: LogReader, number: int, last: int, *ticks: int, damaged: tuple[int, int] | None = None) -> None:
    """A read ends, and has found these messages."""
    messages = [(tick, b"%d" % tick) for tick in ticks]
    reader.on_read(number, messages, last, None if damaged is None else TickRange(*map(Tick, damaged)))
    reader.check_invariants()


def taken(reader: LogReader, messages_max: int = 100) -> list[Found]:
    parts = []
    while reader.has_found:
        parts.append(reader.take(messages_max))
        reader.check_invariants()
    return parts


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
    found(reader, 1, 20, 12, 17)
    assert asked(reader) == [(3, "p", 30, 40)]
    assert taken(reader) == [Found("p", 10, 20, [(12, b"12"), (17, b"17")])]


def test_a_read_that_ended_early_goes_on_where_it_ended() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    asked(reader)
    found(reader, 1, 14)
    assert asked(reader) == [(2, "p", 15, 20)]
    found(reader, 2, 20)
    assert asked(reader) == []


def test_a_read_that_found_nothing_is_tried_again() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    asked(reader)
    found(reader, 1, 9)
    assert not reader.has_found
    assert asked(reader) == [(2, "p", 10, 20)]


def test_ranges_that_touch_or_overlap_are_read_once() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    asked(reader)
    reader.want("p", 15, 25)
    reader.want("p", 26, 30)
    found(reader, 1, 20)
    assert asked(reader) == [(2, "p", 21, 30)]
    assert reader.reads == 2


def test_damage_beyond_what_was_asked_is_not_asked_again() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    reader.want("p", 22, 30)
    asked(reader)
    found(reader, 1, 14, damaged=(15, 25))
    assert taken(reader) == [Found("p", 10, 14, [], TickRange(Tick(15), Tick(25)))]
    assert asked(reader) == [(2, "p", 26, 30)]


def test_an_answer_that_nobody_waits_for_is_nothing() -> None:
    reader = LogReader()
    found(reader, 7, 20)
    assert not reader.has_found
    reader.want("p", 10, 20)
    found(reader, 1, 20)
    found(reader, 1, 20)
    assert len(taken(reader)) == 1


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


def test_a_result_is_taken_in_parts_that_follow_each_other() -> None:
    reader = LogReader()
    reader.want("p", 10, 20)
    found(reader, 1, 14, 11, 12, 14, damaged=(15, 20))
    assert taken(reader, 2) == [
        Found("p", 10, 13, [(11, b"11"), (12, b"12")]),
        Found("p", 14, 14, [(14, b"14")], TickRange(Tick(15), Tick(20))),
    ]


def test_pubends_take_turns() -> None:
    reader = LogReader()
    for pubend in ("p", "q"):
        reader.want(pubend, 1, 9)
    found(reader, 1, 9, 1, 2, 3)
    found(reader, 2, 9, 4, 5)
    assert [(each.pubend, each.first, each.last) for each in taken(reader, 1)] == [
        ("p", 1, 1),
        ("q", 1, 4),
        ("p", 2, 2),
        ("q", 5, 9),
        ("p", 3, 9),
    ]


def test_only_one_read_is_ahead_of_the_one_that_is_taken() -> None:
    reader = LogReader()
    reader.want("p", 1, 100)
    asked(reader)
    found(reader, 1, 10, 1, 2)
    assert asked(reader) == [(2, "p", 11, 100)]
    found(reader, 2, 20, 11)
    assert asked(reader) == []
    reader.take(1)
    assert asked(reader) == []
    reader.take(1)
    assert asked(reader) == [(3, "p", 21, 100)]
