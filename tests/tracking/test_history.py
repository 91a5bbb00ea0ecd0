from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.message_id import MessageId
from penstock.tracking.exact import exact_shape
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.history import History, HistoryOptions
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.sizing import FilterShape
from penstock.tracking.stored import StoredFilter, decode_filter
from tracking.ids import joined, make_id, make_ids

KEY = HistoryKey(Phase.ROUTE, 1)
BLOOM = HistoryOptions("bloom", FilterShape(4_096, 100, 8), late_ms=50, singletons_max=4, staged_max=16)
EXACT = HistoryOptions("exact", exact_shape(1_600, has_subscribers=False), 50, 4, 16, keep_filling=False)


def found(history: History, stored: list[StoredFilter], message_id: MessageId, *, subscriber: int = 0) -> list[str]:
    """The names of the filters of the matching set that claim a message."""
    high, low = message_id.halves()
    filters = [(each.header, each.container()) for each in stored] + history.current(now_ms=10**6)
    matching = {header.name: each for header, each in filters if message_id.timestamp_ms in header.index}
    return [name for name, each in matching.items() if each.contains(high ^ subscriber, low)]


@pytest.mark.parametrize("options", [BLOOM, EXACT])
def test_a_full_filter_is_sealed_at_the_very_message(options: HistoryOptions) -> None:
    history = History(KEY, options)
    history.record(joined(make_ids(1_000, 99)), now_ms=1_049)
    assert not history.has_sealed
    history.record(joined(make_ids(1_099, 2)), now_ms=1_100)
    (sealed,) = history.take()
    assert sealed.header.count == 100
    assert not sealed.header.is_open
    assert sealed.header.index.range == (1_000, 1_099)
    assert sealed.header.opened_ms == 1_049
    (header, _), *_ = history.current(now_ms=1_100)
    assert (header.count, header.opened_ms) == (1, 1_100)
    assert header.filter_id > sealed.header.filter_id


def test_one_batch_may_fill_several_filters() -> None:
    history = History(KEY, BLOOM)
    ids = make_ids(1_000, 350)
    history.record(joined(ids), now_ms=1_030)
    stored = history.take()
    assert [each.header.count for each in stored] == [100, 100, 100]
    assert len({each.header.name for each in stored}) == 3
    assert all(found(history, stored, each) for each in ids)
    history.check_invariants()


def test_keep_filling_stores_generations_of_one_filter() -> None:
    history = History(KEY, BLOOM)
    history.record(joined(make_ids(1_000, 10)), now_ms=1_010)
    history.persist(now_ms=2_000)
    history.record(joined(make_ids(2_000, 10)), now_ms=2_010)
    history.persist(now_ms=3_000)
    history.persist(now_ms=4_000)
    (newest,) = history.take()
    assert (newest.header.generation, newest.header.count, newest.header.is_open) == (2, 20, True)
    assert newest.header.index.range == (1_000, 2_009)
    assert not history.is_waiting


def test_without_keep_filling_each_interval_has_a_filter() -> None:
    history = History(KEY, replace(BLOOM, keep_filling=False))
    for now_ms in (1_000, 2_000):
        history.record(joined(make_ids(now_ms, 10)), now_ms=now_ms)
        history.persist(now_ms=now_ms + 500)
    stored = history.take()
    assert [(each.header.count, each.header.is_open) for each in stored] == [(10, False), (10, False)]
    history.persist(now_ms=5_000)
    assert history.take() == []


def test_old_messages_become_singletons() -> None:
    history = History(KEY, BLOOM)
    history.record(joined([make_id(1_000), make_id(950), make_id(949), make_id(300)]), now_ms=1_000)
    ((header, _),) = history.current(now_ms=1_000)
    assert header.index.range == (950, 1_000)
    assert header.index.singletons == ((300, 300), (949, 949))
    assert header.count == 4
    assert found(history, [], make_id(300))


def test_messages_from_the_future_become_singletons() -> None:
    history = History(KEY, BLOOM)
    history.record(joined([make_id(1_050), make_id(99_000)]), now_ms=1_000)
    ((header, _),) = history.current(now_ms=1_000)
    assert (header.index.range, header.index.singletons) == ((1_050, 1_050), ((99_000, 99_000),))


def test_a_catch_up_goes_to_the_late_history() -> None:
    history = History(KEY, BLOOM)
    old = make_ids(100_000, 150, step_ms=7)
    live = make_ids(500_000, 150)
    for number, (late, fresh) in enumerate(zip(old, live, strict=True)):
        history.record(joined([late, fresh]), now_ms=500_000 + number)
    history.check_invariants()
    stored = history.take()
    assert {each.header.key for each in stored} == {KEY, KEY.late}
    for each in old + live:
        assert found(history, stored, each)
    ranges = [each.header.index.range for each in stored if not each.header.key.is_late]
    assert all(span is not None and span[0] >= 499_950 for span in ranges)
    # Two streams of old messages far apart do not make one wide range.
    indices = [each.header.index for each in stored if each.header.key.is_late]
    assert all(len(index.singletons) <= 4 and index.range is None and 400_000 not in index for index in indices)


def test_a_filter_of_late_messages_only_is_not_stored() -> None:
    history = History(KEY, replace(BLOOM, singletons_max=1))
    history.record(joined(make_ids(1_000, 20, step_ms=10)), now_ms=900_000)
    history.persist(now_ms=900_001)
    assert [each.header.key for each in history.take()] == [KEY.late]
    assert not history.is_waiting
    history.seal(now_ms=900_002)
    assert [each.header.key for each in history.take()] == [KEY.late]


def test_deliveries_are_found_by_subscriber() -> None:
    for options in (BLOOM, replace(EXACT, shape=exact_shape(1_600, has_subscribers=True)), EXACT):
        history = History(HistoryKey(Phase.DELIVER, 1), options)
        alice, bob = subscriber_key("alice"), subscriber_key("bob")
        ids = make_ids(1_000, 30)
        history.record(joined(ids), [alice if number % 2 else bob for number in range(30)], now_ms=1_030)
        assert found(history, [], ids[1], subscriber=alice)
        assert not found(history, [], ids[1], subscriber=bob)
        assert not found(history, [], ids[1])


def test_an_open_filter_of_an_earlier_life_goes_on() -> None:
    history = History(KEY, BLOOM)
    old, late = make_ids(1_000, 10), make_ids(100, 10, step_ms=5)
    history.record(joined(old + late), now_ms=1_010)
    history.persist(now_ms=1_011)
    stored = {each.header.key: decode_filter(each.encode()) for each in history.take()}
    again = History(KEY, BLOOM)
    assert again.resume(stored[KEY])
    assert again.resume(stored[KEY.late])
    assert all(found(again, [], each) for each in old + late)
    again.record(joined(make_ids(2_000, 90)), now_ms=2_090)
    (sealed,) = again.take()
    assert sealed.header.name == stored[KEY].header.name
    assert (sealed.header.count, sealed.header.generation, sealed.header.opened_ms) == (100, 2, 1_010)


def test_a_filter_of_other_settings_does_not_go_on() -> None:
    history = History(KEY, BLOOM)
    history.record(joined(make_ids(1_000, 10)), now_ms=1_010)
    history.persist(now_ms=1_011)
    (stored,) = history.take()
    assert not History(KEY, replace(BLOOM, shape=FilterShape(4_096, 99, 8))).resume(stored)
    assert not History(KEY, replace(BLOOM, keep_filling=False)).resume(stored)
    sealed = replace(stored, header=replace(stored.header, is_open=False))
    assert not History(KEY, BLOOM).resume(sealed)


def test_filter_ids_ascend_even_if_the_clock_goes_back() -> None:
    history = History(KEY, BLOOM, first_id=7_000)
    history.record(joined(make_ids(1_000, 300)), now_ms=1_000)
    assert [each.header.filter_id for each in history.take()] == [7_000, 7_001, 7_002]


def test_memory_is_the_filter_and_what_is_staged() -> None:
    history = History(KEY, BLOOM)
    assert history.size_bytes == 512
    history.record(joined(make_ids(1_000, 3)), now_ms=1_000)
    assert history.size_bytes == 512 + 48


steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(-500, 200), st.integers(1, 60)),
        st.tuples(st.sampled_from(["persist", "look", "take"]), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.integers(1, 300)),
    ),
    max_size=25,
)


@given(steps=steps, keep_filling=st.booleans(), kind=st.sampled_from(["bloom", "exact"]))
def test_nothing_recorded_is_ever_denied(steps: list[tuple[str, int, int]], keep_filling: bool, kind: str) -> None:
    options = replace(BLOOM, keep_filling=keep_filling) if kind == "bloom" else EXACT
    history, now_ms = History(KEY, options), 10_000
    kept: dict[str, StoredFilter] = {}
    recorded: list[MessageId] = []
    for what, offset_ms, count in steps:
        if what == "record":
            ids = [make_id(now_ms + offset_ms + number // 3, len(recorded) + number) for number in range(count)]
            history.record(joined(ids), now_ms=now_ms)
            recorded += ids
        elif what == "wait":
            now_ms += count
        elif what == "persist":
            history.persist(now_ms=now_ms)
        elif what == "look":
            history.current(now_ms=now_ms)
        else:
            kept.update({each.header.name: each for each in history.take()})
        history.check_invariants()
    kept.update({each.header.name: each for each in history.take()})
    assert all(found(history, list(kept.values()), each) for each in recorded)
    assert all(each.header.count <= options.shape.n for each in kept.values())
    # An orderly stop leaves all of it in what is stored.
    history.persist(now_ms=now_ms)
    kept.update({each.header.name: each for each in history.take()})
    assert all(found(History(KEY, options), list(kept.values()), each) for each in recorded)
