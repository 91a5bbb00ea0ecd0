"""What a broker records of its turns, and what of it goes into commits."""

from __future__ import annotations

import pytest

from penstock.broker.commits import Commits
from penstock.broker.durable import KeepRecord
from penstock.broker.mechanisms.tracker import _COMMITS_MAX, _GATHER_MS, _NOTES_MAX, _ORIGINS_MAX, Tracker
from penstock.broker.settings import BrokerSettings
from penstock.model.message_id import MessageId
from penstock.tracking.answers import BrokerAnswer, Evidence
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

NOW_MS = 1_000_000


class Desk:
    """A tracker, its commits, and what became durable of them."""

    def __init__(self, kept: dict[str, bytes] | None = None, *, now_ms: int = NOW_MS, **tracking: object) -> None:
        self.kept = dict(kept or {})
        settings = BrokerSettings("b1", number=1, tracking=TrackingSettings(**tracking))  # type: ignore[arg-type]
        self.tracker, self.commits = Tracker(settings, self.kept), Commits()
        self.tracker.begin_turn(now_ms=now_ms)

    def turn(self, *, sync: bool = True) -> list[str]:
        """Ends a turn; answers with the names of what it wants to be stored."""
        self.tracker.finish(self.commits)
        commit = self.commits.take()
        changes = [each for each in (commit.changes if commit else ()) if isinstance(each, KeepRecord)]
        if sync and commit is not None:
            for each in changes:
                self.kept.pop(each.name, None)
                if each.value is not None:
                    self.kept[each.name] = each.value
            self.commits.on_committed(commit.number)
            self.tracker.on_committed(commit.number)
        return [each.name for each in changes]

    def at(self, now_ms: int) -> None:
        self.tracker.begin_turn(now_ms=now_ms)
        self.tracker.on_deadline()

    def answer(self, message_id: MessageId) -> BrokerAnswer:
        inquiry = self.tracker.answerer().inquire(message_id, now_ms=NOW_MS)
        while inquiry.answer is None:
            inquiry.on_loaded({name: self.kept.get(name) for name in inquiry.needs})
        return inquiry.answer


def message(origin: int, counter: int = 0, timestamp_ms: int = NOW_MS) -> MessageId:
    return MessageId(7, origin, timestamp_ms, counter)


def body(message_id: MessageId) -> bytes:
    return message_id.to_bytes() + b"and the message"


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.turn()
    return desk


def test_each_phase_is_recorded_under_the_origin_of_each_message(desk: Desk) -> None:
    own, foreign, other = message(1), message(2), message(3)
    desk.tracker.connect(5, "alice")
    desk.tracker.attach(5, 1, "alice", durable=False)
    desk.tracker.notes.publish([body(own)])
    desk.tracker.note_routed([body(foreign), body(other)], "b2")
    desk.tracker.notes.deliver([body(other)], [(1).to_bytes(4)], [5])
    desk.turn()
    assert (desk.answer(own).published, desk.answer(own).routed) == (Evidence.YES, Evidence.NO)
    assert (desk.answer(foreign).routed, desk.answer(foreign).receivers) == (Evidence.YES, ())
    assert desk.answer(other).receivers == ("alice",)
    assert desk.answer(message(3, 1)).claim is Evidence.NO
    # Both origins came by the same frame, from the same neighbour.
    for origin in (2, 3):
        assert desk.tracker.upstream_since(origin, NOW_MS + 1_000) == []
        assert desk.tracker.upstream_since(origin, NOW_MS + 300) == ["b2"]


def test_durable_subscriptions_receive_under_their_own_name_and_others_under_the_clients(desk: Desk) -> None:
    tracker = desk.tracker
    tracker.connect(5, "alice")
    tracker.attach(5, 1, "alice", durable=False)
    tracker.attach(5, 2, "orders", durable=True)
    for counter, numbers in enumerate(((1,), (2,), (1, 2))):
        tracker.notes.deliver([body(message(2, counter))], [b"".join(each.to_bytes(4) for each in numbers)], [5])
    tracker.note_routed([body(message(2, counter)) for counter in range(3)], "b2")
    desk.turn()
    assert [desk.answer(message(2, counter)).receivers for counter in range(3)] == [
        ("alice",),
        ("orders",),
        ("alice", "orders"),
    ]


def test_what_was_delivered_in_the_turn_of_a_detachment_counts(desk: Desk) -> None:
    desk.tracker.connect(5, "alice")
    desk.tracker.attach(5, 1, "orders", durable=True)
    desk.tracker.note_routed([body(message(2))], "b2")
    desk.tracker.notes.deliver([body(message(2))], [(1).to_bytes(4)], [5])
    desk.turn()
    desk.at(NOW_MS + 2_000)
    desk.turn()
    desk.tracker.notes.deliver([body(message(2, 1))], [(1).to_bytes(4)], [5])
    desk.tracker.detach(5, 1)
    desk.tracker.leave(5)
    desk.turn()
    assert desk.tracker.next_deadline() == NOW_MS + 2_000 + _GATHER_MS
    desk.tracker.note_routed([body(message(2, 1))], "b2")
    assert [desk.answer(message(2, counter)).receivers for counter in range(2)] == [("orders",), ("orders",)]


def test_mechanisms_of_the_broker_are_no_receivers(desk: Desk) -> None:
    desk.tracker.notes.deliver([body(message(2))], [(1).to_bytes(4)], [-3])
    desk.turn()
    recorded = desk.tracker.status().recorded
    assert isinstance(recorded, dict)
    assert recorded["deliver"] == 0


def test_a_number_that_is_used_again_stands_for_the_new_name(desk: Desk) -> None:
    tracker = desk.tracker
    tracker.connect(5, "alice")
    for counter, (name, is_durable) in enumerate((("first", True), ("second", True), ("alice", False))):
        tracker.attach(5, 1, name, durable=is_durable)
        tracker.note_routed([body(message(2, counter))], "b2")
        tracker.notes.deliver([body(message(2, counter))], [(1).to_bytes(4)], [5])
        desk.turn()
        tracker.detach(5, 1)
    assert [desk.answer(message(2, counter)).receivers for counter in range(3)] == [("first",), ("second",), ("alice",)]


def test_a_publication_under_the_number_of_another_broker_leaves_an_alias(desk: Desk) -> None:
    desk.tracker.notes.publish([body(message(4))])
    desk.turn()
    desk.at(NOW_MS + _GATHER_MS)
    assert f"alias/{message(4)}" in desk.turn()
    assert desk.answer(message(4)).alias == ("b1", 1)


def test_recorded_is_handed_out_within_the_persistence_interval(desk: Desk) -> None:
    desk.tracker.notes.publish([body(message(1))])
    assert desk.turn() == []
    assert desk.tracker.next_deadline() == NOW_MS + _GATHER_MS
    desk.at(NOW_MS + _GATHER_MS)
    assert desk.turn() == []
    # Counted from when it happened.
    assert desk.tracker.next_deadline() == NOW_MS + 1_000
    desk.at(NOW_MS + 1_000)
    names = desk.turn()
    assert [name.partition("#")[0] for name in names] == ["filter/publish/1", "mark"]


def test_while_the_store_cannot_follow_what_is_to_be_stored_waits(desk: Desk) -> None:
    for _ in range(_COMMITS_MAX):
        desk.commits.add(KeepRecord("x", b""))
        desk.commits.take()
    desk.tracker.connect(5, "alice")
    for number in range(1_000):
        desk.tracker.attach(5, 1, "alice", durable=False)
        desk.tracker.start(5, 1, {"p": number})
        desk.tracker.detach(5, 1)
        desk.tracker.on_neighbour("b2", up=bool(number % 2))
        assert desk.turn() == []
    # One for each attachment, and one for the link.
    assert len(desk.tracker._outgoing) == 1_001
    desk.commits.on_committed(_COMMITS_MAX)
    assert len(desk.turn()) >= 1_001


def test_an_orderly_stop_stores_everything_whatever_waits(desk: Desk) -> None:
    for _ in range(_COMMITS_MAX):
        desk.commits.add(KeepRecord("x", b""))
        desk.commits.take()
    desk.tracker.notes.publish([body(message(1))])
    desk.tracker.stop()
    desk.tracker.stop()
    assert "mark" in desk.turn()
    later = Desk(desk.kept, now_ms=NOW_MS + 10**6)
    later.turn()
    assert later.answer(message(1)).published is Evidence.YES
    assert later.answer(message(1, 9)).published is Evidence.NO


def test_what_becomes_durable_after_the_stop_is_a_gap(desk: Desk) -> None:
    desk.tracker.stop()
    desk.turn()
    desk.tracker.notes.publish([body(message(1))])
    assert desk.turn() == ["gap/stop/"]
    later = Desk(desk.kept, now_ms=NOW_MS + 10**6)
    assert later.answer(message(1)).published is Evidence.GAP
    assert later.answer(message(1, 0, NOW_MS + 5_000)).published is Evidence.NO


def test_a_crash_is_a_gap_from_the_mark_on(desk: Desk) -> None:
    desk.tracker.notes.publish([body(message(1))])
    desk.turn()
    later = Desk(desk.kept, now_ms=NOW_MS + 500)
    assert later.answer(message(1)).published is Evidence.GAP


def test_a_life_without_tracking_is_no_life_in_which_nothing_happened(desk: Desk) -> None:
    desk.tracker.stop()
    desk.turn()
    silent = Desk(desk.kept, now_ms=NOW_MS + 10_000, strategy="null")
    assert not silent.tracker.is_on
    assert silent.turn() == ["mark"]
    assert silent.turn() == []
    later = Desk(silent.kept, now_ms=NOW_MS + 20_000)
    assert later.answer(message(1, 0, NOW_MS + 15_000)).published is Evidence.UNKNOWN


def test_without_tracking_nothing_is_stored_and_nothing_known() -> None:
    desk = Desk(strategy="null")
    desk.tracker.connect(1, "alice")
    desk.tracker.attach(1, 1, "alice", durable=False)
    desk.tracker.on_neighbour("b2", up=True)
    assert desk.turn() == []
    assert desk.answer(message(1)).published is Evidence.UNKNOWN
    desk.tracker.stop()
    assert (desk.turn(), desk.tracker.next_deadline()) == ([], None)


def test_links_count_for_as_long_as_there_was_one(desk: Desk) -> None:
    tracker = desk.tracker
    tracker.on_neighbour("b2", up=True)
    tracker.on_neighbour("b3", up=True)
    desk.turn()
    tracker.begin_turn(now_ms=NOW_MS + 5_000)
    tracker.on_neighbour("b3", up=False)
    assert tracker.neighbours_since(NOW_MS + 4_000) == ["b2", "b3"]
    assert tracker.neighbours_since(NOW_MS + 10_000) == ["b2"]
    desk.turn()
    # The next life does not know when they ended.
    later = Desk(desk.kept, now_ms=NOW_MS + 60_000)
    assert sorted(later.tracker.neighbours_since(NOW_MS + 10_000)) == ["b2", "b3"]
    assert later.tracker.neighbours_since(NOW_MS + 70_000) == []


def test_ways_of_an_earlier_life_are_not_known(desk: Desk) -> None:
    desk.tracker.begin_turn(now_ms=NOW_MS + 1_000)
    desk.tracker.note_routed([body(message(2))], "b2")
    desk.turn()
    assert desk.tracker.upstream_since(2, NOW_MS + 500) == ["b2"]
    assert desk.tracker.upstream_since(2, NOW_MS - 500) == []


def test_origins_without_number_do_not_fill_the_memory(desk: Desk) -> None:
    desk.tracker.note_routed([body(message(9))], "b2")
    desk.turn()
    desk.tracker.begin_turn(now_ms=NOW_MS + 5_000)
    desk.tracker.note_routed([body(message(origin)) for origin in range(10, 11 + _ORIGINS_MAX)], "b2")
    desk.turn()
    assert len(desk.tracker._upstream) == _ORIGINS_MAX
    # What was forgotten is not known from then on only: an earlier way may have been another one.
    desk.tracker.note_routed([body(message(9))], "b3")
    desk.turn()
    assert desk.tracker.upstream_since(9, NOW_MS + 1_000) == []
    assert desk.tracker.upstream_since(9, NOW_MS + 5_300) == ["b3"]


def test_damaged_records_are_counted(desk: Desk) -> None:
    desk.tracker.notes.publish([body(message(1))])
    desk.tracker.stop()
    desk.turn()
    damaged = {name: value[:-1] if name.startswith("filter/") else value for name, value in desk.kept.items()}
    later = Desk(damaged, now_ms=NOW_MS + 1_000)
    assert later.tracker.status().damaged == 1
    assert later.answer(message(1)).published is Evidence.GAP


def published(desk: Desk) -> int:
    recorded = desk.tracker.status().recorded
    assert isinstance(recorded, dict)
    return recorded["publish"]


def test_much_is_recorded_at_once_and_little_after_a_moment(desk: Desk) -> None:
    desk.tracker.notes.publish([body(message(1, number)) for number in range(_NOTES_MAX - 1)])
    desk.turn()
    assert published(desk) == 0
    desk.tracker.notes.publish([body(message(1, _NOTES_MAX))])
    desk.turn()
    assert published(desk) == _NOTES_MAX
    assert desk.tracker.next_deadline() == NOW_MS + 1_000


def test_full_filters_wait_for_the_next_mark() -> None:
    desk = Desk(shape=FilterShape(8_192, 128, 40), staged_max=64)
    desk.turn()
    desk.tracker.notes.publish([body(message(1, number)) for number in range(_NOTES_MAX)])
    assert desk.turn() == []
    assert desk.tracker.tracking.status().filters_kept == _NOTES_MAX // 128
    assert desk.answer(message(1, 5)).published is Evidence.YES
    desk.at(NOW_MS + 1_000)
    names = [name.partition("#")[0] for name in desk.turn()]
    assert names == ["filter/publish/1"] * (_NOTES_MAX // 128) + ["mark"]


def test_when_much_waits_full_filters_do_not() -> None:
    desk = Desk(shape=FilterShape(8_192, 128, 40), staged_max=64, waiting_bytes_max=10_000)
    desk.turn()
    desk.tracker.notes.publish([body(message(1, number)) for number in range(_NOTES_MAX)])
    names = [name.partition("#")[0] for name in desk.turn()]
    assert names.count("filter/publish/1") >= 2
    assert "mark" not in names


def test_what_comes_by_long_after_its_time_is_known_to_the_next_crash(desk: Desk) -> None:
    desk.at(NOW_MS + 100_000)
    desk.turn()
    desk.tracker.note_routed([body(message(2, 0, NOW_MS + 40_000))], "b2")
    assert desk.turn() == ["mark"]
    later = Desk(desk.kept, now_ms=NOW_MS + 100_500)
    assert later.answer(message(2, 0, NOW_MS + 40_000)).routed is Evidence.GAP
    assert later.answer(message(2, 0, NOW_MS + 30_000)).routed is Evidence.NO
