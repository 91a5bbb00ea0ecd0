from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.message_id import MessageId
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.recorder import Gaps, Recorder
from penstock.tracking.records import GapRecord, Keep, MarkRecord, decode_record
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape
from penstock.tracking.stored import HEADER_BYTES_MAX, decode_filter, decode_header
from tracking.ids import joined, make_id, make_ids

SETTINGS = TrackingSettings(
    shape=FilterShape(4_096, 100, 8),
    efpp=0.01,
    buffer_bytes=1_000,
    publish_rate_max=100,
    delivery_rate_max=100,
    skew_tolerance_ms=20,
    jitter_ms=30,
    singletons_max=4,
    staged_max=16,
)
EXACT = replace(SETTINGS, strategy="exact", buffer_bytes=1_600)
ROUTE = HistoryKey(Phase.ROUTE, 2)


class Store:
    """What is durable of one broker."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def keep(self, recorder: Recorder, values: list[Keep] | None = None) -> list[Keep]:
        taken = recorder.take() if values is None else values
        for keep in taken:
            if keep.value is None:
                self.values.pop(keep.name, None)
            else:
                self.values[keep.name] = keep.value
        recorder.on_kept(taken)
        recorder.check_invariants()
        return taken

    def mark(self) -> MarkRecord:
        return decode_record(self.values["mark"], MarkRecord)

    def filters(self) -> list[str]:
        return [name for name in self.values if name.startswith("filter/")]


def claims(recorder: Recorder, store: Store, key: HistoryKey, message_id: MessageId, subscriber: int = 0) -> bool:
    matching = recorder.matching(key, message_id.timestamp_ms, now_ms=10**7)
    loaded = [decode_filter(store.values[f"filter/{each.name}"]).container() for each in matching.stored]
    high, low = message_id.halves()
    return any(each.contains(high ^ subscriber, low) for each in [*(each for _, each in matching.memory), *loaded])


def restarted(store: Store, *, now_ms: int, settings: TrackingSettings = SETTINGS) -> Recorder:
    recorder = Recorder(1, settings, now_ms=now_ms)
    assert recorder.load(store.values, now_ms=now_ms) == []
    store.keep(recorder)
    return recorder


@pytest.mark.parametrize("settings", [SETTINGS, EXACT, replace(SETTINGS, per_subscriber=True)])
def test_each_phase_has_its_histories(settings: TrackingSettings) -> None:
    recorder, store = Recorder(1, settings, now_ms=1_000), Store()
    ids = make_ids(1_000, 30, broker=2)
    alice, bob = subscriber_key("alice"), subscriber_key("bob")
    recorder.record_published(joined(ids[:10]), now_ms=1_010)
    recorder.record_routed(2, joined(ids[10:20]), now_ms=1_020)
    recorder.record_delivered(2, joined(ids[20:]), [alice, bob] * 5, now_ms=1_030)
    assert claims(recorder, store, HistoryKey(Phase.PUBLISH, 1), ids[3])
    assert claims(recorder, store, ROUTE, ids[13])
    assert not claims(recorder, store, ROUTE, ids[3])
    part = f"{alice:016x}" if settings.per_subscriber else ""
    deliver = HistoryKey(Phase.DELIVER, 2, part)
    assert claims(recorder, store, deliver, ids[20], alice)
    assert not claims(recorder, store, deliver, ids[20], bob)
    assert recorder.status().recorded == {"publish": 10, "route": 10, "deliver": 10}


def test_everything_is_handed_out_within_the_persistence_interval() -> None:
    recorder, store = Recorder(1, SETTINGS, now_ms=1_000), Store()
    store.keep(recorder)
    assert recorder.next_deadline() == 11_000
    recorder.record_routed(2, joined(make_ids(5_000, 30)), now_ms=5_000)
    assert recorder.next_deadline() == 6_000
    recorder.on_deadline(now_ms=5_999)
    assert recorder.take() == []
    recorder.on_deadline(now_ms=6_000)
    names = [keep.name for keep in store.keep(recorder)]
    assert names[-1] == "mark"
    assert len(names) == 2
    assert store.mark() == MarkRecord(6_000, 6_000)
    recorder.on_deadline(now_ms=16_000)
    assert [keep.name for keep in store.keep(recorder)] == ["mark"]


def test_an_open_filter_is_overwritten_by_its_next_generation() -> None:
    recorder, store = Recorder(1, SETTINGS, now_ms=0), Store()
    for second in range(1, 5):
        recorder.record_routed(2, joined(make_ids(second * 1_000, 10)), now_ms=second * 1_000)
        recorder.persist(now_ms=second * 1_000 + 500)
        store.keep(recorder)
    (name,) = store.filters()
    assert decode_header(store.values[name]).generation == 4
    assert decode_header(store.values[name]).count == 40


def test_full_filters_take_what_the_paper_says() -> None:
    # 64 Kbit, 99.999 %: 3.25 bytes per message, framing included.
    settings = TrackingSettings(shape=FilterShape(65_536, 2_521, 16))
    recorder, store = Recorder(1, settings, now_ms=0), Store()
    for place in range(10):
        recorder.record_routed(2, joined(make_ids(place * 2_521, 2_521)), now_ms=place * 2_521 + 2_600)
        store.keep(recorder)
    kept = sum(len(store.values[name]) for name in store.filters())
    assert kept / 25_210 == pytest.approx(3.25, rel=0.02)


def test_an_orderly_stop_loses_nothing_and_leaves_no_gap() -> None:
    for settings in (SETTINGS, EXACT):
        recorder, store = Recorder(1, settings, now_ms=0), Store()
        ids = make_ids(1_000, 250, broker=2)
        recorder.record_routed(2, joined(ids), now_ms=1_250)
        recorder.stop(now_ms=1_300)
        store.keep(recorder)
        assert recorder.next_deadline() is None
        assert store.mark().is_stopped
        again = restarted(store, now_ms=90_000, settings=settings)
        assert all(claims(again, store, ROUTE, each) for each in ids)
        assert list(again.gaps) == []


def test_the_next_life_goes_on_filling() -> None:
    recorder, store = Recorder(1, SETTINGS, now_ms=0), Store()
    recorder.record_routed(2, joined(make_ids(1_000, 40)), now_ms=1_040)
    recorder.stop(now_ms=1_300)
    store.keep(recorder)
    again = restarted(store, now_ms=2_000)
    again.record_routed(2, joined(make_ids(2_000, 60)), now_ms=2_060)
    store.keep(again)
    (name,) = store.filters()
    header = decode_header(store.values[name])
    assert (header.count, header.is_open) == (100, False)


def test_a_crash_leaves_a_gap_from_the_last_mark_on() -> None:
    recorder, store = Recorder(1, SETTINGS, now_ms=0), Store()
    recorder.record_routed(2, joined(make_ids(1_000, 40)), now_ms=1_040)
    recorder.persist(now_ms=2_000)
    store.keep(recorder)
    recorder.record_routed(2, joined(make_ids(2_500, 40)), now_ms=2_540)
    again = restarted(store, now_ms=9_000)
    assert [each.reason for each in again.matching(ROUTE, 2_500, now_ms=9_000).gaps] == ["crash"]
    assert again.matching(ROUTE, 1_949, now_ms=9_000).gaps == []
    assert again.matching(ROUTE, 1_950, now_ms=9_000).gaps != []
    assert again.matching(ROUTE, 9_051, now_ms=9_000).gaps == []
    assert claims(again, store, ROUTE, make_id(1_010))
    # The gap is known to the lives after the next, too.
    later = restarted(store, now_ms=20_000)
    assert later.matching(ROUTE, 2_500, now_ms=20_000).gaps != []


def test_the_gap_of_a_crash_reaches_back_to_late_messages() -> None:
    for batch in ([make_id(300)], [make_id(5_000), make_id(300)], [make_id(300), make_id(5_000)]):
        recorder, store = Recorder(1, SETTINGS, now_ms=5_000), Store()
        recorder.record_routed(2, joined(batch), now_ms=5_000)
        store.keep(recorder)
        assert store.mark() == MarkRecord(5_000, 300)
        again = restarted(store, now_ms=9_000)
        assert again.matching(ROUTE, 300, now_ms=9_000).gaps != []


def test_the_gap_of_a_crash_reaches_back_to_where_newcomers_began() -> None:
    recorder, store = Recorder(1, SETTINGS, now_ms=5_000), Store()
    store.keep(recorder)
    again = Recorder(1, SETTINGS, now_ms=9_000)
    again.load(store.values, floor_ms=700, now_ms=9_000)
    assert again.matching(ROUTE, 700, now_ms=9_000).gaps != []
    assert again.matching(ROUTE, 649, now_ms=9_000).gaps == []


def test_a_store_that_cannot_follow_makes_a_gap_and_nobody_waits() -> None:
    recorder, store = Recorder(1, replace(SETTINGS, waiting_bytes_max=2_000), now_ms=0), Store()
    ids = make_ids(1_000, 1_000)
    for place in range(0, 1_000, 100):
        recorder.record_routed(2, joined(ids[place : place + 100]), now_ms=1_000 + place + 50)
    status = recorder.status()
    assert status.filters_dropped == 7
    assert isinstance(status.waiting_bytes, int)
    assert status.waiting_bytes < 4_000
    store.keep(recorder)
    for each in ids:
        gaps = recorder.matching(ROUTE, each.timestamp_ms, now_ms=9_000).gaps
        assert claims(recorder, store, ROUTE, each) or [gap.reason for gap in gaps] == ["overload"]
    assert recorder.matching(HistoryKey(Phase.ROUTE, 3), 1_900, now_ms=9_000).gaps == []
    # As soon as the store follows again, so does tracking.
    recorder.record_routed(2, joined(make_ids(3_000, 100)), now_ms=3_050)
    store.keep(recorder)
    assert recorder.status().waiting_bytes == 0
    assert claims(recorder, store, ROUTE, make_id(3_050))


def test_an_open_filter_waits_for_a_store_that_cannot_follow() -> None:
    recorder, store = Recorder(1, replace(SETTINGS, waiting_bytes_max=1_000), now_ms=0), Store()
    for origin in (2, 3, 4):
        recorder.record_routed(origin, joined(make_ids(1_000, 20)), now_ms=1_000)
    recorder.on_deadline(now_ms=2_000)
    held = recorder.take()
    assert "mark" not in [keep.name for keep in held[1:]]
    assert recorder.next_deadline() == 3_000
    store.keep(recorder, held)
    assert store.mark().stored_ms == 0
    for now_ms in (3_000, 4_000):
        recorder.on_deadline(now_ms=now_ms)
        store.keep(recorder)
    assert len(store.filters()) == 3
    assert store.mark().stored_ms >= 3_000
    assert recorder.status().filters_dropped == 0


def test_values_on_their_way_can_be_asked() -> None:
    recorder = Recorder(1, SETTINGS, now_ms=0)
    recorder.record_routed(2, joined(make_ids(1_000, 100)), now_ms=1_050)
    (header,) = recorder.matching(ROUTE, 1_010, now_ms=2_000).stored
    name = f"filter/{header.name}"
    first = recorder.waiting_value(name)
    assert first is not None
    taken = recorder.take()
    assert recorder.waiting_value(name) == first
    recorder.on_kept(taken)
    assert recorder.waiting_value(name) is None


def test_a_broker_knows_nothing_of_the_time_before_it_first_recorded() -> None:
    store = Store()
    recorder = restarted(store, now_ms=5_000)
    assert not recorder.matching(ROUTE, 4_999, now_ms=6_000).is_known
    assert recorder.matching(ROUTE, 5_000, now_ms=6_000).is_known
    recorder.stop(now_ms=7_000)
    store.keep(recorder)
    assert restarted(store, now_ms=8_000).matching(ROUTE, 5_000, now_ms=9_000).is_known
    # A life without tracking in between takes the mark away.
    del store.values["mark"]
    assert not restarted(store, now_ms=20_000).matching(ROUTE, 15_000, now_ms=21_000).is_known


def test_too_many_histories_seal_the_quietest() -> None:
    recorder, store = Recorder(1, replace(SETTINGS, histories_max=2), now_ms=0), Store()
    for origin, now_ms in ((2, 1_000), (3, 1_010), (2, 1_020), (4, 1_030), (3, 1_040)):
        recorder.record_routed(origin, joined([make_id(now_ms, broker=origin)]), now_ms=now_ms)
    store.keep(recorder)
    assert recorder.status().histories == 2
    assert len(store.filters()) == 2
    for origin, now_ms in ((2, 1_000), (3, 1_010), (4, 1_030), (3, 1_040)):
        assert claims(recorder, store, HistoryKey(Phase.ROUTE, origin), make_id(now_ms, broker=origin))


def test_a_history_that_begins_anew_overwrites_no_late_filter_of_the_one_before() -> None:
    """Late histories may have gone through more filters than the history itself."""
    recorder, store = Recorder(1, replace(SETTINGS, histories_max=1), now_ms=0), Store()
    now_ms, late = 1_000_000, [make_ids(100_000 + 10_000 * turn, 350, step_ms=7) for turn in range(2)]
    for turn, ids in enumerate(late):
        # The clock does not tell the two apart.
        recorder.record_routed(2, joined([make_id(now_ms, turn)]), now_ms=now_ms)
        recorder.record_routed(2, joined(ids), now_ms=now_ms)
        # Another origin takes its place.
        recorder.record_routed(3, joined([make_id(now_ms, turn, broker=3)]), now_ms=now_ms)
        store.keep(recorder)
    assert recorder.catalogue.last_id(ROUTE.late) > recorder.catalogue.last_id(ROUTE)
    missing = [each for ids in late for each in ids if not claims(recorder, store, ROUTE, each)]
    assert missing == []


def test_what_is_older_than_all_that_is_kept_is_unknown() -> None:
    recorder, store = Recorder(1, replace(SETTINGS, filters_kept_max=3), now_ms=0), Store()
    for place in range(5):
        ids = [*make_ids(1_000 + place * 100, 99), make_id(90_000 + place)]
        recorder.record_routed(2, joined(ids), now_ms=1_060 + place * 100)
        store.keep(recorder)
    assert len(store.filters()) == 3
    assert not recorder.matching(ROUTE, 1_050, now_ms=2_000).is_known
    assert recorder.matching(ROUTE, 1_350, now_ms=2_000).is_known
    # The next life knows it, too.
    assert not restarted(store, now_ms=2_000).matching(ROUTE, 1_050, now_ms=2_000).is_known
    assert restarted(store, now_ms=2_000).matching(ROUTE, 1_350, now_ms=2_000).is_known
    # Those with timestamps from the future are missed as well.
    assert [gap.reason for gap in recorder.matching(ROUTE, 90_000, now_ms=2_000).gaps] == ["retention"]


def test_beginnings_of_closed_filters_are_enough_to_start() -> None:
    recorder, store = Recorder(1, replace(SETTINGS, keep_filling=False), now_ms=0), Store()
    recorder.record_routed(2, joined(make_ids(1_000, 150)), now_ms=1_050)
    recorder.stop(now_ms=1_300)
    store.keep(recorder)
    shortened = {name: value[: min(HEADER_BYTES_MAX, len(value) - 1)] for name, value in store.values.items()}
    shortened["mark"] = store.values["mark"]
    again = Recorder(1, SETTINGS, now_ms=2_000)
    assert again.load(shortened, now_ms=2_000) == []
    assert len(again.matching(ROUTE, 1_050, now_ms=2_000).stored) == 1


@pytest.mark.parametrize("harm", ["cut", "flip"])
def test_damaged_values_are_reported_and_make_a_gap(harm: str) -> None:
    recorder, store = Recorder(1, SETTINGS, now_ms=0), Store()
    recorder.record_routed(2, joined(make_ids(1_000, 150)), now_ms=1_150)
    recorder.stop(now_ms=1_300)
    store.keep(recorder)
    name = store.filters()[0]
    value = store.values[name]
    store.values[name] = value[:50] if harm == "cut" else value[:20] + bytes([value[20] ^ 4]) + value[21:]
    again = Recorder(1, SETTINGS, now_ms=2_000)
    assert again.load(store.values, now_ms=2_000) == [name]
    assert [gap.reason for gap in again.matching(ROUTE, 1_050, now_ms=2_000).gaps] == ["damaged"]
    assert again.matching(HistoryKey(Phase.ROUTE, 3), 1_050, now_ms=2_000).gaps == []


def test_a_damaged_mark_makes_everything_before_uncertain() -> None:
    recorder, store = Recorder(1, SETTINGS, now_ms=0), Store()
    store.keep(recorder)
    store.values["mark"] = store.values["mark"][:-1]
    again = Recorder(1, SETTINGS, now_ms=2_000)
    assert again.load(store.values, now_ms=2_000) == ["mark"]
    assert again.matching(HistoryKey(Phase.ROUTE, 3), 50, now_ms=2_000).gaps != []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(2, 4), st.integers(-900, 20), st.integers(1, 70)),
        st.tuples(st.sampled_from(["take", "durable"]), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.just(0), st.integers(1, 900)),
    ),
    max_size=30,
)


@given(steps=steps, strategy=st.sampled_from(["bloom", "exact"]), waiting_bytes_max=st.sampled_from([3_000, 10**6]))
def test_after_a_crash_at_any_time_what_is_denied_is_in_a_gap(
    steps: list[tuple[str, int, int, int]], strategy: str, waiting_bytes_max: int
) -> None:
    settings = replace(SETTINGS, strategy=strategy, waiting_bytes_max=waiting_bytes_max)
    recorder, store, now_ms = Recorder(1, settings, now_ms=10_000), Store(), 10_000
    store.keep(recorder)
    recorded: list[tuple[int, MessageId]] = []
    on_their_way: list[list[Keep]] = []
    for what, origin, offset_ms, number in steps:
        if what == "record":
            ids = [make_id(now_ms + offset_ms + each // 3, len(recorded) + each) for each in range(number)]
            recorder.record_routed(origin, joined(ids), now_ms=now_ms)
            recorded += [(origin, each) for each in ids]
            if offset_ms < -50:
                # A crash before the lowered mark is durable is what this cannot know of.
                store.keep(recorder, [each for batch in on_their_way for each in batch])
                on_their_way.clear()
                store.keep(recorder)
        elif what == "wait":
            now_ms += number
            recorder.on_deadline(now_ms=now_ms)
        elif what == "take":
            on_their_way.append(recorder.take())
        elif on_their_way:
            store.keep(recorder, on_their_way.pop(0))
        recorder.check_invariants()
    again = restarted(store, now_ms=now_ms + 1, settings=settings)
    for origin, each in recorded:
        key = HistoryKey(Phase.ROUTE, origin)
        gaps: list[GapRecord] = again.matching(key, each.timestamp_ms, now_ms=now_ms).gaps
        assert gaps or claims(again, store, key, each)


def test_filters_that_are_kept_elsewhere_retire_unless_they_are_open() -> None:
    recorder, store = Recorder(1, SETTINGS, now_ms=1_000), Store()
    recorder.record_published(joined(make_ids(1_000, 150)), now_ms=1_150)
    recorder.persist(now_ms=2_000)
    store.keep(recorder)
    closed, still_open = store.filters()
    recorder.retire([still_open])
    assert store.keep(recorder) == []
    recorder.retire([closed, still_open])
    store.keep(recorder)
    assert store.filters() == [still_open]
    assert "since/filter" in store.values


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
