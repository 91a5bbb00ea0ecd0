"""Commits: what they refuse, how they are stored, and that a refused one leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from live.store.support import append, everything, numbered, opened, sequences, tamper, ticks_of
from penstock.live.store import (
    Append,
    Change,
    ChangeRefusedError,
    ForgetPublishers,
    LogStore,
    MarkLost,
    SetValue,
    Trim,
)
from penstock.live.store.gathered import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from penstock.live.store.writing import _ROWS_MAX
from penstock.model.tick import TICK_MAX, Tick, TickRange


def batch_sizes(store: LogStore) -> list[int]:
    return [messages for (messages,) in store._database.execute("SELECT messages FROM batches ORDER BY first")]


def test_appends_to_one_pubend_are_stored_as_one(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([Append("p", numbered(1, 2)), Append("q", numbered(1, 1)), Append("p", numbered(3, 5))])
        assert sorted(batch_sizes(store)) == [1, 5]
        assert ticks_of(everything(store)) == [1, 2, 3, 4, 5]


def test_batches_are_cut_by_bytes_and_by_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5, size=BATCH_BYTES_MAX // 2)
        assert batch_sizes(store) == [2, 2, 1]
    with opened(tmp_path / "2") as store:
        append(store, 1, BATCH_MESSAGES_MAX + 1, size=0)
        assert batch_sizes(store) == [BATCH_MESSAGES_MAX, 1]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (Append("p", numbered(10, 11)), "tick 10 is below 11, the lowest that may follow"),
        (Append("p", [(Tick(12), b""), (Tick(12), b"")]), "tick 12 is below 13"),
        (Append("p", [(Tick(TICK_MAX + 1), b"")]), f"tick {TICK_MAX + 1} is outside 0 to {TICK_MAX}"),
        (Append("new", [(Tick(-1), b"")]), "tick -1 is below 0"),
        (Append("p", lease=Tick(99)), "lease 99 is below the earlier 100"),
        (Append("p", lease=Tick(TICK_MAX + 1)), "is outside 0 to"),
        (Append("p", sequences={b"x": -1}), "sequence -1 is outside 0 to"),
        (Append("p", sequences={b"x": 2**63}), "is outside 0 to"),
        (Trim("p", Tick(-1)), "tick -1 is outside"),
        (Trim("p", Tick(1), batches_max=0), "a trim of 0 batches never ends"),
        (MarkLost("p", TickRange(Tick(10), Tick(20))), "lost ticks 10 to 20 do not lie above 10"),
        (MarkLost("p", TickRange(Tick(12), Tick(11))), "do not lie above"),
        (MarkLost("p", TickRange(Tick(12), Tick(TICK_MAX + 1))), "is outside 0 to"),
        (MarkLost("q", TickRange(Tick(5), Tick(9))), "behind messages of the same commit"),
        (ForgetPublishers("p", Tick(-1)), "tick -1 is outside"),
    ],
)
def test_a_refused_change_leaves_nothing_of_its_commit(tmp_path: Path, change: Change, complaint: str) -> None:
    with opened(tmp_path) as store:
        store.commit([Append("p", numbered(1, 10), Tick(100))])
        with pytest.raises(ChangeRefusedError, match=complaint):
            store.commit([Append("q", numbered(1, 1)), SetValue("v", b"1"), change])
        assert store.pubends() == ["p"]
        assert (store.last_tick("p"), store.lease("p"), store.value("v")) == (10, 100, None)
        append(store, 11, 11)
    with opened(tmp_path) as store:
        assert ticks_of(everything(store)) == list(range(1, 12))


def test_the_ticks_of_one_commit_ascend_over_its_appends(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(ChangeRefusedError, match="tick 2 is below 3"):
        store.commit([Append("p", numbered(1, 2)), Append("p", numbered(2, 3))])


def test_nothing_is_appended_below_a_trim(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.trim("p", Tick(10))
        with pytest.raises(ChangeRefusedError, match="tick 9 is below 10"):
            append(store, 9, 9)
        append(store, 10, 10)


def test_a_trim_within_a_batch_keeps_its_rest(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 10)
        append(store, 11, 20)
        store.commit([Trim("p", Tick(14))])
        assert ticks_of(everything(store)) == list(range(14, 21))
        assert (store.first_tick("p"), store.message_count("p"), store.size_bytes("p")) == (14, 7, 70)
        assert batch_sizes(store) == [7]


def test_a_trim_of_many_batches_goes_on_in_later_commits(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for tick in range(1, 11):
            append(store, tick, tick)
        store.commit([Trim("p", Tick(8), batches_max=3)])
        assert (store.trimmed_below("p"), store.first_tick("p")) == (4, 4)
        store.commit([Trim("p", Tick(8), batches_max=3)])
        assert store.trimmed_below("p") == 7
        store.commit([Trim("p", Tick(8), batches_max=3)])
        assert (store.trimmed_below("p"), ticks_of(everything(store))) == (8, [8, 9, 10])


def test_a_trim_never_goes_back(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 10)
        store.trim("p", Tick(6))
        store.commit([Trim("p", Tick(3))])
        assert store.trimmed_below("p") == 6


def test_a_damaged_batch_in_which_a_trim_ends_stays_damaged(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 10)
        append(store, 11, 20)
    tamper(tmp_path, "UPDATE bodies SET stored=x'00' WHERE place=1")
    with opened(tmp_path) as store:
        store.trim("p", Tick(5))
        assert store.damaged("p") == [TickRange(Tick(5), Tick(10))]
        assert store.first_tick("p") == 5
        store.trim("p", Tick(12))
        assert store.damaged("p") == []
        assert ticks_of(everything(store)) == list(range(12, 21))


def test_sequences_only_rise_and_are_forgotten_by_age(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([Append("p", numbered(1, 5), sequences={b"a": 7, b"b": 1})])
        store.commit([Append("p", numbered(6, 6), sequences={b"a": 3})])
        store.commit([Append("p", sequences={b"c": 0}), ForgetPublishers("q", Tick(99))])
        assert sequences(store) == {b"a": 7, b"b": 1, b"c": 0}
        store.commit([ForgetPublishers("p", Tick(6))])
        assert sequences(store) == {b"a": 7, b"c": 0}
        assert store.pubends() == ["p"]


def test_many_publishers_are_remembered_at_once(tmp_path: Path) -> None:
    publishers = {b"%d" % number: number for number in range(_ROWS_MAX * 2 + 3)}
    with opened(tmp_path) as store:
        store.commit([Append("p", numbered(1, 1), sequences=publishers), Append("q", sequences={b"0": 9})])
        store.commit([Append("p", numbered(2, 2), sequences={b"5": 1, b"6": 60}), Append("p", sequences={b"6": 50})])
        found = store.recovered().pubends
        assert found["p"].sequences == publishers | {b"6": 60}
        assert found["q"].sequences == {b"0": 9}


def test_the_space_of_a_damaged_batch_is_not_used_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 10)
        append(store, 11, 20)
    tamper(tmp_path, "UPDATE bodies SET stored=zeroblob(100) WHERE place=1")
    with opened(tmp_path) as store:
        store.trim("p", Tick(21))
        assert batch_sizes(store) == []
        assert store._database.execute("SELECT place FROM bodies").fetchall() == [(1,)]
        append(store, 21, 21)
        assert ticks_of(everything(store)) == [21]


def test_ticks_are_marked_as_lost_before_what_is_appended_with_them(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 3)
        lost = TickRange(Tick(4), Tick(90))
        store.commit([MarkLost("p", lost), Append("p", numbered(91, 92), Tick(200)), MarkLost("new", lost)])
        assert (store.first_tick("p"), store.last_tick("p"), store.message_count("p")) == (1, 92, 5)
        assert (store.first_tick("new"), store.last_tick("new")) == (4, 90)
    with opened(tmp_path) as store:
        assert (store.damaged("p"), store.damaged("new")) == ([lost], [lost])
        part = store.read_part("p", Tick(2), TICK_MAX, bytes_max=1_000)
        assert ([tick for tick, _ in part.messages], part.last) == ([2, 3], 3)
        recovered = store.recovered().pubends
        assert (recovered["p"].last_tick, recovered["new"].last_tick) == (92, 90)
