from __future__ import annotations

from penstock.tracking.gaps import Gaps
from penstock.tracking.records import GapRecord, decode_record


def test_gaps_of_one_kind_grow_together() -> None:
    gaps = Gaps()
    first = gaps.add(GapRecord(((1, 5),), "overload", "route/7"))
    second = gaps.add(GapRecord(((6, 9), (20, 20)), "overload", "route/7"))
    assert first.name == second.name == "gap/overload/route/7"
    assert second.value is not None
    assert decode_record(second.value, GapRecord).spans == ((1, 9), (20, 20))
    assert len(list(gaps)) == 1


def test_gaps_are_found_by_history_and_time() -> None:
    gaps = Gaps()
    gaps.add(GapRecord(((1, 5),), "overload", "route/7"))
    gaps.load(GapRecord(((4, 8),), "crash"))
    assert [each.reason for each in gaps.concerning("route/7", 5)] == ["overload", "crash"]
    assert [each.reason for each in gaps.concerning("route/8", 5)] == ["crash"]
    assert gaps.concerning("route/7", 9) == []


def test_a_record_stays_small_and_never_forgets() -> None:
    gaps = Gaps()
    for number in range(1_000):
        keep = gaps.add(GapRecord(((number * 10, number * 10),), "crash"))
    assert keep.value is not None
    assert len(decode_record(keep.value, GapRecord).spans) == 256
    assert len(keep.value) < 4_000
    assert all(gaps.concerning("x", number * 10) for number in range(1_000))
