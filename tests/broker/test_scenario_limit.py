"""One limit on an overlay of several brokers: kept, shared, shown, and nothing lost for it."""

from __future__ import annotations

from dataclasses import fields

import pytest

from overlay import Overlay, TestClient
from penstock.ajil import Aup, Entry, Report, encode
from penstock.ajil.settings import LimitSettings
from penstock.broker import Broker, BrokerSettings
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.protocol import frames as f

AUP = Aup(
    limit_bytes_s=20_000,
    alpha=1,
    beta=1,
    report_fraction=1.0,
    epoch_ms=200,
    timeout_epochs=20,
    version=1,
    author="file",
)
BODY = 100
"""About the size of a message of a test client."""


class Feed:
    """A client that wants to send so many messages a second, with as much credit as it is given."""

    def __init__(self, overlay: Overlay, broker: str, topic: str) -> None:
        self.client: TestClient = overlay.client(broker)
        self.topic, self.sent, self.due = topic, 0, 0.0

    def run(self, rate_s: float, ms: int) -> None:
        self.due += rate_s * ms / 1000
        while self.due >= 1:
            self.due -= 1
            self.sent += 1
            self.client.publish({"number": self.sent, "topic": self.topic, "filling": "x" * 50})

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.client.heard if isinstance(each, f.HeldBack)]


def brokers(limit: LimitSettings | None, *, guaranteed: bool = True) -> Overlay:
    """Two brokers with publishers around one with a subscriber."""
    common = {"limit": limit, "silent_ms": 1_000_000}
    rays = [
        BrokerSettings(
            name=name,
            number=number,
            neighbours=("ib",),
            pubends=(f"{name}.a",),
            best_effort=() if guaranteed else (f"{name}.a",),
            **common,  # type: ignore[arg-type]
        )
        for number, name in enumerate(("pb", "pb2"), start=2)
    ]
    hub = BrokerSettings(name="ib", number=1, neighbours=("pb", "pb2"), **common)  # type: ignore[arg-type]
    overlay = Overlay(hub, *rays)
    for name in ("pb", "pb2"):
        overlay.link(name, "ib")
    return overlay


def network(limit: LimitSettings | None = None, *, guaranteed: bool = True) -> tuple[Overlay, list[Feed], TestClient]:
    overlay = brokers(limit or LimitSettings(AUP), guaranteed=guaranteed)
    subscriber = overlay.client("ib")
    subscriber.subscribe(1, "")
    overlay.wait(1000)
    return overlay, [Feed(overlay, "pb", "IBM"), Feed(overlay, "pb2", "SUN")], subscriber


def give_limit(overlay: Overlay, name: str, limit: LimitSettings) -> None:
    """The operator tells one broker."""
    settings = {each.name: getattr(overlay.settings[name], each.name) for each in fields(BrokerSettings)}
    broker = overlay.brokers[name]
    overlay._act(name, broker.apply(BrokerSettings(**{**settings, "limit": limit}), now_ms=overlay.now_ms))


def version_at(broker: Broker) -> int:
    limit = broker.status().limit
    assert limit is not None
    return limit.version


def run(overlay: Overlay, feeds: list[Feed], subscriber: TestClient, rate_s: float, seconds: int) -> list[int]:
    """Bytes that arrived at the subscriber in each second."""
    arrived = []
    for _ in range(seconds):
        before = sum(sum(map(len, each.bodies)) for each in subscriber.heard if isinstance(each, f.Deliver))
        for _ in range(50):
            for feed in feeds:
                feed.run(rate_s, 20)
            overlay.wait(20)
        after = sum(sum(map(len, each.bodies)) for each in subscriber.heard if isinstance(each, f.Deliver))
        arrived.append(after - before)
    return arrived


@pytest.mark.parametrize("guaranteed", [True, False])
def test_the_limit_holds_for_all_brokers_together_and_nothing_is_lost(*, guaranteed: bool) -> None:
    overlay, feeds, subscriber = network(guaranteed=guaranteed)
    arrived = run(overlay, feeds, subscriber, 150, 8)
    assert sum(arrived[3:]) / 5 < 1.1 * 20_000
    assert sum(arrived[3:]) / 5 > 0.6 * 20_000
    assert any("is slowed down to" in reason for feed in feeds for reason in feed.reasons)
    run(overlay, feeds, subscriber, 0, 20)
    assert len(subscriber.messages()) == sum(feed.sent for feed in feeds)
    for feed in feeds:
        numbers = [each["number"] for each in subscriber.messages() if each["topic"] == feed.topic]
        assert numbers == list(range(1, feed.sent + 1)), "in order, each once"
        assert feed.reasons[-1] == "", "nobody is held back any more"


def test_below_the_limit_nobody_waits() -> None:
    overlay, feeds, subscriber = network()
    run(overlay, feeds, subscriber, 40, 4)
    assert [feed.reasons for feed in feeds] == [[], []]
    assert len(subscriber.messages()) == sum(feed.sent for feed in feeds)


def test_a_policy_that_one_broker_is_given_reaches_all() -> None:
    overlay, feeds, subscriber = network(LimitSettings())
    run(overlay, feeds, subscriber, 100, 1)
    give_limit(overlay, "pb", LimitSettings(AUP))
    run(overlay, feeds, subscriber, 100, 2)
    for broker in overlay.brokers.values():
        assert version_at(broker) == 1


def test_a_broker_that_had_no_limit_can_be_given_one() -> None:
    overlay = brokers(None)
    assert "ajil" not in overlay.brokers["pb"].status().mechanisms
    for name in overlay.brokers:
        give_limit(overlay, name, LimitSettings(AUP))
    feeds = [Feed(overlay, "pb", "IBM"), Feed(overlay, "pb2", "SUN")]
    subscriber = overlay.client("ib")
    subscriber.subscribe(1, "")
    overlay.wait(1000)
    arrived = run(overlay, feeds, subscriber, 150, 6)
    assert sum(arrived[3:]) / 3 < 1.15 * 20_000


def test_a_broker_that_dies_while_slowed_down_leaves_its_share_to_others() -> None:
    overlay, feeds, subscriber = network()
    run(overlay, feeds, subscriber, 150, 4)
    overlay.cut("pb2", "ib")
    run(overlay, feeds[:1], subscriber, 150, 8)
    arrived = run(overlay, feeds[:1], subscriber, 150, 3)
    assert sum(arrived) / 3 > 0.9 * 150 * BODY


def test_a_broker_that_joins_late_obeys_within_three_epochs() -> None:
    overlay, feeds, subscriber = network(LimitSettings())
    overlay.cut("pb2", "ib")
    overlay.wait(1000)
    give_limit(overlay, "pb", LimitSettings(AUP))
    run(overlay, feeds[:1], subscriber, 150, 2)
    overlay.link("pb2", "ib")
    for _ in range(3 * AUP.epoch_ms // 20):
        for feed in feeds:
            feed.run(150, 20)
        overlay.wait(20)
    assert version_at(overlay.brokers["pb2"]) == 1


def test_a_loud_publisher_that_comes_late_obeys_within_three_epochs() -> None:
    overlay, feeds, subscriber = network()
    run(overlay, feeds, subscriber, 40, 2)
    late = Feed(overlay, "pb", "DEC")
    overlay.wait(AUP.epoch_ms - overlay.now_ms % AUP.epoch_ms)
    for _ in range(3 * AUP.epoch_ms // 20):
        for feed, rate_s in ((feeds[0], 40), (feeds[1], 40), (late, 300)):
            feed.run(rate_s, 20)
        overlay.wait(20)
    assert any("group 'DEC' is slowed down to" in reason for reason in late.reasons)


def test_a_client_cannot_say_what_brokers_say_to_each_other() -> None:
    overlay, feeds, subscriber = network()
    run(overlay, feeds, subscriber, 40, 1)
    forger = overlay.client("pb")
    lie = Message.system({"$class": "AJIL"}, encode(Report("pb9", 1, (Entry("nowhere", 1e9, 1e6),))))
    forger.say(f.Publish(1, [encode_body(forger.source().next(overlay.now_ms), lie)]))
    assert "is reserved" in forger.refusals()[0][2]
    run(overlay, feeds, subscriber, 40, 2)
    for name in ("pb", "pb2", "ib"):
        limit = overlay.brokers[name].status().limit
        assert limit is not None
        assert AUP.limit_bytes_s is not None
        assert limit.estimate_bytes_s < AUP.limit_bytes_s
        assert limit.slowed_channels == 0
    assert [feed.reasons for feed in feeds] == [[], []]
