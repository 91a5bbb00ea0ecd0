"""A disk keeps what the live store would keep, and fails where the live store would refuse."""

from __future__ import annotations

import pytest

from live.store.kept_support import filter_record, value_of
from penstock.broker.durable import (
    Append,
    Change,
    ForgetPublishers,
    KeepRecord,
    MarkLost,
    Recovered,
    RecoveredPubend,
    SetValue,
    Trim,
)
from penstock.model.tick import TICK_MAX, Tick, TickRange
from penstock.sim.disk import Disk


def append(*ticks: int, lease: int | None = None, **sequences: int) -> Append:
    messages = [(Tick(tick), b"%05d" % tick) for tick in ticks]
    return Append("p", messages, None if lease is None else Tick(lease), {k.encode(): v for k, v in sequences.items()})


def test_what_was_appended_is_recovered() -> None:
    disk = Disk()
    disk.apply([append(3, 5, lease=10, a=2), append(8, a=1, b=7), SetValue("x", b"1"), SetValue("y", b"2")])
    disk.apply([SetValue("y", None)])
    pubend = RecoveredPubend(
        lease=10,
        last_tick=8,
        first_tick=3,
        trimmed_below=0,
        parts=((3, 5), (5, 5), (8, 5)),
        sequences={b"a": 2, b"b": 7},
    )
    assert disk.recovered() == Recovered({"p": pubend}, {"x": b"1"})
    assert disk.size_bytes == 15


@pytest.mark.parametrize(
    "changes",
    [
        [append(5)],
        [append(4)],
        [append(9, 9)],
        [append(9), append(8)],
        [append(lease=9)],
        [append(lease=12), append(lease=11)],
        [append(9, a=-1)],
    ],
)
def test_a_broken_rule_fails_and_changes_nothing(changes: list[Append]) -> None:
    disk = Disk()
    disk.apply([append(5, lease=10)])
    before = disk.recovered()
    with pytest.raises(AssertionError, match="pubend p"):
        disk.apply([append(6), *changes] if changes[0].messages == [] else changes)
    assert disk.recovered() == before


def test_a_read_says_up_to_where_it_is_complete() -> None:
    disk = Disk()
    disk.apply([append(3, 5, 8, 12)])
    assert disk.read("p", 4, 10, 100) == ([(5, b"00005"), (8, b"00008")], 11, None)
    assert disk.read("p", 4, 100, 10) == ([(5, b"00005"), (8, b"00008")], 11, None)
    assert disk.read("p", 5, 100, 1) == ([(5, b"00005")], 7, None)
    assert disk.read("p", 13, 100, 1) == ([], TICK_MAX, None)
    assert disk.read("q", 1, 2, 1) == ([], TICK_MAX, None)
    assert list(disk.recovered().pubends) == ["p"]


def test_a_read_ends_before_what_is_damaged() -> None:
    disk = Disk()
    disk.apply([append(3, 5, 8)])
    assert disk.damage("p", 5) == b"00005"
    assert disk.read("p", 0, 10, 100) == ([(3, b"00003")], 4, (5, 5))
    assert disk.read("p", 5, 10, 100) == ([], 4, (5, 5))
    assert disk.read("p", 6, 10, 100) == ([(8, b"00008")], TICK_MAX, None)
    with pytest.raises(AssertionError, match="no message with tick 6"):
        disk.damage("p", 6)


def test_a_trim_stays_the_lower_bound_for_good() -> None:
    disk = Disk()
    disk.apply([append(3, 5, 8), Trim("p", Tick(6))])
    assert (disk.ticks("p"), disk.recovered().pubends["p"].trimmed_below, disk.size_bytes) == ([8], 6, 5)
    assert disk.read("p", 2, 9, 100) == ([], 1, (2, 5))
    assert disk.read("p", 2, 3, 100) == ([], 1, (2, 3))
    assert disk.read("p", 6, 9, 100) == ([(8, b"00008")], TICK_MAX, None)
    disk.apply([Trim("p", Tick(4)), Trim("p", Tick(20))])
    assert disk.recovered().pubends["p"] == RecoveredPubend(last_tick=8, trimmed_below=20)
    with pytest.raises(AssertionError, match="tick 19 is below 20"):
        disk.apply([append(19)])
    disk.apply([append(20)])


def test_a_trim_that_is_cut_short_goes_as_far_as_it_went() -> None:
    disk = Disk()
    disk.apply([append(3, 5, 8)])
    disk.apply([Trim("p", Tick(9), batches_max=2)])
    assert (disk.ticks("p"), disk.recovered().pubends["p"].trimmed_below) == ([8], 8)


def test_publishers_are_forgotten_by_their_latest_message() -> None:
    disk = Disk()
    disk.apply([append(3, a=1, b=1)])
    disk.apply([append(8, b=2)])
    disk.apply([ForgetPublishers("p", Tick(4))])
    assert disk.recovered().pubends["p"].sequences == {b"b": 2}


def test_a_journal_remembers_all_that_was_ever_durable() -> None:
    disk = Disk()
    disk.apply([append(1)])
    disk.journal = []
    disk.apply([append(3, 5)])
    disk.apply([Trim("p", Tick(6), 10)])
    assert disk.journal == [("p", 3, b"00003"), ("p", 5, b"00005")]
    assert (disk.last_tick("p"), disk.last_tick("q"), disk.ticks("p")) == (5, 0, [])


def test_kept_records_are_recovered_in_the_order_in_which_they_were_last_kept() -> None:
    disk, closed, open_ = Disk(), filter_record(1), filter_record(2, is_open=True)
    disk.apply([KeepRecord("mark", b"1"), closed, open_, KeepRecord("gap", b"2"), KeepRecord("gap", None)])
    disk.apply([KeepRecord("mark", b"3"), KeepRecord("none", None)])
    kept = disk.recovered().kept
    assert list(kept) == disk.kept_names() == [closed.name, open_.name, "mark"]
    assert (kept[open_.name], kept["mark"]) == (open_.value, b"3")
    assert value_of(closed).startswith(kept[closed.name])
    assert len(kept[closed.name]) < 200
    assert disk.read_kept((closed.name, "gap")) == {closed.name: closed.value, "gap": None}
    assert disk.size_bytes == len(value_of(closed)) + len(value_of(open_)) + 1


def test_a_read_of_kept_records_is_bounded_but_gives_one_at_least() -> None:
    disk = Disk()
    disk.apply([KeepRecord(name, bytes(10)) for name in "abcd"])
    assert list(disk.read_kept(("d", "x", "b", "a"), bytes_max=20)) == ["d", "x", "b"]
    assert list(disk.read_kept(("d", "b"), bytes_max=0)) == ["d"]
    assert disk.read_kept(()) == {}


def test_a_damaged_record_is_there_without_a_byte_until_it_is_kept_anew() -> None:
    disk = Disk()
    disk.apply([KeepRecord("a", b"1"), KeepRecord("b", b"2")])
    for name in "ab":
        disk.damage_kept(name)
    assert (disk.recovered().kept, disk.read_kept("ab")) == ({"a": b"", "b": b""}, {"a": None, "b": None})
    disk.apply([KeepRecord("a", b"3"), KeepRecord("b", None)])
    assert (disk.recovered().kept, disk.size_bytes) == ({"a": b"3"}, 1)
    with pytest.raises(AssertionError, match="no record b"):
        disk.damage_kept("b")


def test_growth_is_what_size_will_be_more() -> None:
    disk = Disk()
    disk.apply([append(1), KeepRecord("a", bytes(10)), KeepRecord("b", bytes(10))])
    changes: list[Change] = [
        append(2),
        KeepRecord("a", None),
        KeepRecord("a", bytes(3)),
        KeepRecord("b", None),
        KeepRecord("c", b""),
    ]
    before, growth = disk.size_bytes, disk.growth_bytes(changes)
    disk.apply(changes)
    assert growth == disk.size_bytes - before == 5 - 7 - 10


def test_ticks_that_are_marked_as_lost_are_read_as_damaged_until_they_are_trimmed() -> None:
    disk = Disk()
    disk.apply([append(1), append(3)])
    lost = TickRange(Tick(4), Tick(90))
    disk.apply([MarkLost("p", lost), append(91)])
    assert (disk.last_tick("p"), disk.recovered().pubends["p"].last_tick) == (91, 91)
    messages, last, damaged = disk.read("p", 2, 1_000, 1_000)
    assert ([tick for tick, _ in messages], last, damaged) == ([3], 3, lost)
    assert disk.read("p", 50, 60, 1_000) == ([], 49, lost)
    assert disk.read("p", 3, 3, 1_000)[1:] == (3, None)
    assert disk.read("p", 91, 95, 1_000)[1:] == (TICK_MAX, None)
    disk.apply([Trim("p", Tick(91))])
    assert disk.read("p", 91, 95, 1_000)[1:] == (TICK_MAX, None)
    with pytest.raises(AssertionError, match="do not lie above 91"):
        disk.apply([MarkLost("p", TickRange(Tick(91), Tick(99)))])


def test_a_backup_brings_back_what_was_there_and_the_journal_goes_on() -> None:
    disk = Disk()
    disk.journal = []
    disk.apply([append(1), SetValue("v", b"1"), KeepRecord("k", b"1")])
    backup = disk.copy()
    disk.apply([append(2), SetValue("v", b"2"), KeepRecord("k", b"22")])
    disk.restore(backup)
    assert (disk.ticks("p"), disk.recovered().values, disk.kept_names()) == ([1], {"v": b"1"}, ["k"])
    disk.apply([append(2)])
    assert [tick for _, tick, _ in disk.journal] == [1, 2, 2]
    disk.restore(backup)
    assert disk.ticks("p") == [1]
    assert disk.size_bytes == backup.size_bytes
