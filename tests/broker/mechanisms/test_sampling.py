"""PRESS at a broker: which interests want which publications, while somebody samples and only then."""

from __future__ import annotations

from overlay import Overlay
from penstock.broker import BrokerSettings
from penstock.broker.mechanisms.sampling import Sampling
from penstock.selectors import Selector


def one_broker() -> tuple[Overlay, Sampling]:
    overlay = Overlay(BrokerSettings("a", pubends=("p",), best_effort=("p",)))
    rooms = overlay.brokers["a"].rooms
    return overlay, Sampling(rooms, overlay.brokers["a"].migrations)


def test_interests_are_gathered_and_matched() -> None:
    overlay, sampling = one_broker()
    small, again, both = (overlay.client("a") for _ in range(3))
    small.subscribe(1, "x < 5")
    again.subscribe(9, "x < 5")
    both.subscribe(1, "x > 2")
    both.subscribe(2, "x < 5")
    publisher = overlay.client("a")
    publisher.subscribe(1, "x = 3")
    publisher.publish({"x": 0})
    sampling.begin([Selector.parse("x = 7")], 3, lambda _: True)
    publisher.publish({"x": 1}, {"x": 3}, {"x": 7}, {"x": 3})
    assert sampling.is_full
    profile = sampling.end()
    found = {each.name: (len(each.subscribers), each.stays, each.subscriptions) for each in profile.interests}
    assert found == {"x < 5": (2, False, 1), "x < 5 | x > 2": (1, False, 2), "x = 3": (0, True, 1)}
    vectors = {each.name: profile.press.text(place) for place, each in enumerate(profile.interests)}
    assert vectors == {"x < 5": "011", "x < 5 | x > 2": "111", "x = 3": "010"}
    assert profile.press.css_text() == "100"
    assert profile.message_bytes > 23


def test_nobody_samples_before_and_after() -> None:
    overlay, sampling = one_broker()
    client = overlay.client("a")
    client.subscribe(1, "x > 0")
    overlay.client("a").publish({"x": 3})
    sampling.begin([], 50, lambda _: True)
    overlay.client("a").publish({"x": 1})
    assert sampling.end().press.taken == 1
    overlay.client("a").publish({"x": 2})
    assert sampling.end().press.taken == 1


def test_who_may_not_go_or_came_since_is_no_candidate() -> None:
    overlay, sampling = one_broker()
    stays = overlay.client("a")
    stays.subscribe(1, "x > 0")
    sampling.begin([], 50, lambda _: False)
    late = overlay.client("a")
    late.subscribe(1, "y > 0")
    overlay.client("a").publish({"x": 1, "y": 1})
    profile = sampling.end()
    assert [(each.name, each.subscribers, each.stays) for each in profile.interests] == [("x > 0", (), True)]
    assert profile.press.text(0) == "1"


def test_reserved_publications_are_never_sampled() -> None:
    overlay, sampling = one_broker()
    watcher = overlay.client("a")
    watcher.subscribe(1, "$class = 'PIE'")
    sampling.begin([], 50, lambda _: True)
    router = overlay.brokers["a"].rooms.router
    router.publish("$a", [], [], now_ms=overlay.now_ms)
    assert sampling.end().interests == []


def test_who_only_publishes_is_measured_by_the_brokers_of_its_pubends() -> None:
    overlay, sampling = one_broker()
    publisher, both, asked = (overlay.client("a") for _ in range(3))
    for client in (publisher, both, asked):
        client.publish({"x": 1}, pubend="p")
    both.subscribe(1, "x > 0")
    asked.publish({"x": 1})
    sampling.begin([], 50, lambda _: True)
    overlay.wait(2_000)
    publisher.publish({"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}, pubend="p")
    both.publish({"x": 1}, pubend="p")
    asked.publish({"x": 1})
    (found,) = sampling.end().publishing
    assert found.connection == publisher.connection
    assert found.rates_msg_s.keys() == {"a"}
    assert 1.9 < found.rates_msg_s["a"] < 2.1, "who leaves the choice to the broker cannot go, nor who subscribes"
