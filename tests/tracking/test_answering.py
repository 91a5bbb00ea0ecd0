from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.message_id import MessageId
from penstock.tracking.answering import Answerer
from penstock.tracking.answers import BrokerAnswer, Evidence
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.hashing import EXPIRED_KEY, subscriber_key
from penstock.tracking.recorder import Recorder
from penstock.tracking.records import Keep
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape
from penstock.tracking.strategy import NullTracking
from tracking.ids import joined, make_id, make_ids

SETTINGS = TrackingSettings(
    shape=FilterShape(4_096, 100, 8),
    efpp=0.01,
    buffer_bytes=1_000,
    publish_rate_max=100,
    delivery_rate_max=100,
    skew_tolerance_ms=20,
    jitter_ms=30,
)


class Broker:
    """Broker b2, of number 2: its tracking and what it has stored."""

    def __init__(self, settings: TrackingSettings = SETTINGS) -> None:
        self.recorder = Recorder(2, settings, now_ms=0)
        self.attachments = AttachmentMap()
        self.answerer = Answerer(
            "b2", 2, self.recorder, self.attachments, slack_ms=50, per_subscriber=settings.per_subscriber
        )
        self.values: dict[str, bytes | None] = {}
        self.loaded: list[tuple[str, ...]] = []

    def store(self) -> None:
        taken: list[Keep] = self.recorder.take()
        self.values.update({keep.name: keep.value for keep in taken})
        self.recorder.on_kept(taken)

    def deliver(self, ids: list[MessageId], subscriber: str, *, now_ms: int) -> None:
        keys = [subscriber_key(subscriber)] * len(ids)
        self.recorder.record_delivered(ids[0].broker, joined(ids), keys, now_ms=now_ms)

    def answer(self, message_id: MessageId, *, origins: tuple[int, ...] = (), now_ms: int = 99_000) -> BrokerAnswer:
        inquiry = self.answerer.inquire(message_id, origins, neighbours=["b1"], upstream=["b1"], now_ms=now_ms)
        while inquiry.answer is None:
            assert inquiry.needs
            self.loaded.append(inquiry.needs)
            inquiry.on_loaded({name: self.values.get(name) for name in inquiry.needs})
        return inquiry.answer


@pytest.mark.parametrize(
    "settings", [SETTINGS, replace(SETTINGS, strategy="exact"), replace(SETTINGS, per_subscriber=True)]
)
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_broker_says_what_it_routed_and_to_whom_it_delivered(settings: TrackingSettings, is_stored: bool) -> None:
    broker = Broker(settings)
    broker.attachments.attach("alice", {}, now_ms=500)
    broker.attachments.attach("bob", {}, now_ms=500)
    ids = make_ids(1_000, 100)
    broker.recorder.record_routed(1, joined(ids), now_ms=1_050)
    broker.deliver(ids[:50], "alice", now_ms=1_050)
    if is_stored:
        broker.recorder.persist(now_ms=2_000)
        broker.store()
    found = broker.answer(ids[10])
    assert (found.routed, found.published, found.delivered) == (Evidence.YES, Evidence.NO, Evidence.YES)
    assert found.receivers == ("alice",)
    assert found.receivers_checked == 2
    assert (found.neighbours, found.upstream, found.alias, found.gaps) == (("b1",), ("b1",), None, ())
    assert len(found.evidence) == 2
    assert (found.path_fpp == 0) == (settings.strategy == "exact")
    assert (broker.answer(ids[60]).receivers, broker.answer(ids[60]).delivered) == ((), Evidence.NO)


def test_subscriber_histories_are_not_asked_where_the_message_never_was() -> None:
    broker = Broker()
    broker.attachments.attach("alice", {}, now_ms=500)
    broker.recorder.record_routed(1, joined(make_ids(1_000, 100)), now_ms=1_050)
    broker.deliver(make_ids(1_000, 100), "alice", now_ms=1_050)
    broker.store()
    found = broker.answer(make_id(1_010, 7))
    assert (found.claim, found.receivers_checked, found.delivered) == (Evidence.NO, 0, Evidence.NO)
    assert len(broker.loaded) == 1
    assert found.path_fpp > 0


def test_filters_are_loaded_only_if_they_match_and_only_if_stored() -> None:
    broker = Broker()
    for place in range(5):
        broker.recorder.record_routed(1, joined(make_ids(1_000 + place * 100, 100)), now_ms=1_050 + place * 100)
    # Handed out, but perhaps not durable: the store is not asked.
    assert broker.answer(make_id(1_010)).claim is Evidence.YES
    assert broker.loaded == []
    broker.store()
    assert broker.answer(make_id(1_010)).claim is Evidence.YES
    assert [len(names) for names in broker.loaded] == [1]
    assert broker.answer(make_id(700)).claim is Evidence.NO
    assert len(broker.loaded) == 1


def test_the_publisher_history_is_asked_at_the_origin_only() -> None:
    broker = Broker()
    mine, foreign = make_id(1_000, broker=2), make_id(1_001, broker=1)
    broker.recorder.record_published(joined([mine, foreign]), now_ms=1_000)
    assert broker.answer(mine).published is Evidence.YES
    assert broker.answer(foreign).published is Evidence.NO
    assert broker.answer(foreign, origins=(1, 2)).published is Evidence.YES


def test_an_alias_is_told() -> None:
    broker = Broker()
    broker.answerer.aliases.record(make_id(1_000, broker=2), "b3", 3, now_ms=1_500)
    assert broker.answer(make_id(1_000, broker=2)).alias == ("b3", 3)


def test_a_forgotten_alias_makes_a_no_of_the_origin_uncertain() -> None:
    broker = Broker()
    broker.recorder.record_published(joined([make_id(1_001, broker=2)]), now_ms=1_001)
    broker.answerer.aliases.known_since_ms = 5_000
    found = broker.answer(make_id(1_000, broker=2))
    assert (found.published, found.claim) == (Evidence.GAP, Evidence.GAP)
    assert [(gap.history, gap.reason) for gap in found.gaps] == [("aliases", "retention")]
    assert broker.answer(make_id(1_001, broker=2)).gaps == ()
    assert broker.answer(make_id(1_000, broker=1)).gaps == ()
    assert broker.answer(make_id(6_000, broker=2)).gaps == ()


def test_histories_of_all_origins_are_asked() -> None:
    broker = Broker()
    broker.recorder.record_routed(3, joined([make_id(1_000)]), now_ms=1_000)
    assert broker.answer(make_id(1_000)).claim is Evidence.NO
    assert broker.answer(make_id(1_000), origins=(3,)).claim is Evidence.YES


def test_who_caught_up_later_is_found() -> None:
    broker = Broker()
    ids = make_ids(1_000, 50)
    broker.recorder.record_routed(1, joined(ids), now_ms=1_050)
    broker.recorder.persist(now_ms=2_000)
    broker.attachments.attach("late", {"p": 1_000 << 16}, now_ms=60_000)
    broker.attachments.attach("later", {"p": 60_000 << 16}, now_ms=60_000)
    broker.deliver(ids, "late", now_ms=60_100)
    found = broker.answer(ids[7])
    assert (found.receivers, found.receivers_checked) == (("late",), 1)


def test_a_message_published_long_after_its_timestamp_finds_who_came_in_between() -> None:
    broker = Broker()
    broker.attachments.attach("newcomer", {"p": 50_000 << 16}, now_ms=50_000)
    retried = make_id(1_000)
    broker.recorder.record_routed(1, joined([retried]), now_ms=55_000)
    broker.deliver([retried], "newcomer", now_ms=55_000)
    assert broker.answer(retried).receivers == ("newcomer",)


def test_a_gap_makes_a_no_worthless_and_receivers_are_looked_for() -> None:
    broker = Broker()
    broker.attachments.attach("alice", {}, now_ms=500)
    broker.recorder.record_routed(1, joined(make_ids(1_000, 10)), now_ms=1_010)
    broker.recorder.persist(now_ms=1_500)
    broker.store()
    again = Broker()
    again.values = broker.values
    again.attachments = again.answerer.attachments = broker.attachments
    again.recorder.load({name: value for name, value in broker.values.items() if value is not None}, now_ms=5_000)
    lost, kept = make_id(2_000), make_id(1_005)
    again.deliver([lost], "alice", now_ms=5_500)
    # When it came is not known either: who attached later may have received it.
    again.attachments.attach("newcomer", {}, now_ms=5_400)
    again.deliver([lost], "newcomer", now_ms=5_500)
    found = again.answer(lost)
    assert (found.claim, found.receivers) == (Evidence.GAP, ("alice", "newcomer"))
    assert {(gap.history, gap.reason) for gap in found.gaps} == {("route/1", "crash"), ("deliver/1", "crash")}
    assert again.answer(kept).claim is Evidence.YES


@pytest.mark.parametrize("harm", ["cut", "flip", "gone", "swap"])
def test_a_damaged_filter_is_a_gap_and_never_a_no(harm: str) -> None:
    broker = Broker()
    for origin in (1, 3):
        broker.recorder.record_routed(origin, joined(make_ids(1_000, 100)), now_ms=1_050)
    broker.store()
    (name,), (other,) = ([each for each in broker.values if each.startswith(f"filter/route/{o}#")] for o in (1, 3))
    value = broker.values[name]
    assert value is not None
    harmed = {"cut": value[:-5], "flip": value[:200] + bytes([value[200] ^ 1]) + value[201:], "gone": None}
    broker.values[name] = broker.values[other] if harm == "swap" else harmed[harm]
    found = broker.answer(make_id(1_010))
    assert found.claim is Evidence.GAP
    assert [(gap.reason, gap.span) for gap in found.gaps if gap.history == "route/1"] == [("damaged", (1_000, 1_099))]


def test_what_is_older_than_kept_is_unknown() -> None:
    broker = Broker(replace(SETTINGS, filters_kept_max=1))
    for place in range(3):
        broker.recorder.record_routed(1, joined(make_ids(1_000 + place * 100, 100)), now_ms=1_050 + place * 100)
    broker.store()
    assert broker.answer(make_id(1_010)).claim is Evidence.UNKNOWN
    assert broker.answer(make_id(1_210)).claim is Evidence.YES


def test_forgotten_attachments_make_deliveries_uncertain() -> None:
    broker = Broker()
    broker.attachments.known_since_ms = 5_000
    broker.recorder.record_routed(1, joined([make_id(1_000)]), now_ms=1_000)
    found = broker.answer(make_id(1_000))
    assert (found.routed, found.delivered) == (Evidence.YES, Evidence.GAP)
    assert [(gap.history, gap.reason) for gap in found.gaps] == [("attachments", "retention")]


def test_without_tracking_everything_is_unknown() -> None:
    answerer = Answerer("b2", 2, NullTracking(), AttachmentMap(), slack_ms=50)
    found = answerer.inquire(make_id(1_000, broker=2), now_ms=2_000).answer
    assert found is not None
    assert (found.claim, found.published, found.delivered) == (Evidence.UNKNOWN, Evidence.UNKNOWN, Evidence.UNKNOWN)


def test_more_subscribers_checked_are_more_chances_to_be_wrong() -> None:
    broker = Broker()
    ids = make_ids(1_000, 99)
    broker.recorder.record_routed(1, joined(ids), now_ms=1_050)
    broker.deliver(ids, "alice", now_ms=1_050)
    broker.attachments.attach("alice", {}, now_ms=0)
    one = broker.answer(ids[0]).delivery_fpp
    for number in range(9):
        broker.attachments.attach(f"other-{number}", {}, now_ms=0)
    assert broker.answer(ids[0]).delivery_fpp == pytest.approx(10 * one, rel=0.01)
    assert one > 0


@pytest.mark.parametrize("per_subscriber", [False, True])
def test_where_a_message_has_expired_is_known(per_subscriber: bool) -> None:
    broker = Broker(replace(SETTINGS, per_subscriber=per_subscriber))
    one, other = make_ids(1_000, 2)
    broker.recorder.record_routed(1, joined([one, other]), now_ms=1_000)
    broker.recorder.record_delivered(1, joined([one]), [EXPIRED_KEY], now_ms=1_000)
    found = broker.answer(one)
    assert (found.expired, found.receivers, found.receivers_checked) == (True, (), 0)
    assert not broker.answer(other).expired
    assert found.delivered is broker.answer(other).delivered is Evidence.NO
