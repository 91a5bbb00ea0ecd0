"""Settings that change while brokers run: links and brokers come and go, and who listens misses nothing."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay import Overlay, TestClient
from penstock.broker import Access, BrokerSettings, Rule, SettingsError
from penstock.broker.neighbours.membership import CHANGEABLE, needs_restart
from penstock.protocol import frames as f
from penstock.protocol.status import BrokerStatus
from penstock.selectors.selector import Selector

PATIENT_MS = 10_000_000
"""Nobody is taken for dead: the clients here say nothing of themselves."""
KEY, OTHER_KEY = "key", "other key"
Link = tuple[str, str]


class Fleet:
    """Brokers of one overlay file, which is changed."""

    def __init__(self, *links: Link, guaranteed: bool = True, access: Access | None = None) -> None:
        self.guaranteed = guaranteed
        self.access = access or Access()
        self.links = links
        self.names = self.named(links)
        self.overlay = Overlay(*map(self.settings_of, self.names))
        for link in links:
            self.overlay.link(*link)

    @staticmethod
    def named(links: tuple[Link, ...]) -> tuple[str, ...]:
        return tuple(sorted({"pb", *(name for link in links for name in link)}))

    def settings_of(self, name: str) -> BrokerSettings:
        pubends = (f"{name}.a",) if name.startswith("pb") else ()
        return BrokerSettings(
            name,
            number=ord(name[-1]),
            pubends=pubends,
            best_effort=() if self.guaranteed else pubends,
            neighbours=tuple(left if right == name else right for left, right in self.links if name in (left, right)),
            members=self.names,
            silent_ms=PATIENT_MS,
            access=self.access,
        )

    def write(self, *links: Link) -> None:
        """The file is changed; nobody has heard of it yet."""
        self.links, self.names = links, self.named(links)
        for name in self.names:
            self.overlay.settings[name] = self.settings_of(name)
            if name not in self.overlay.brokers:
                self.overlay.start(name)

    def apply(self, *names: str) -> None:
        for name in names or tuple(self.overlay.brokers):
            if name in self.names:
                effects = self.overlay.brokers[name].apply(self.settings_of(name), now_ms=self.overlay.now_ms)
                self.overlay._act(name, effects)
        self.overlay.check_invariants()

    def dial(self) -> None:
        """Links that should be and are not, as diallers would see to it."""
        for left, right in self.links:
            brokers = self.overlay.brokers
            if left in brokers and right in brokers and right not in brokers[left].status().links:
                self.overlay.link(left, right)
        self.overlay.check_invariants()

    def become(self, *links: Link) -> None:
        self.write(*links)
        self.apply()
        self.dial()
        for name in [name for name in self.overlay.brokers if name not in self.names]:
            self.overlay.crash(name)

    def subscriber(self, broker: str, selector: str = "") -> TestClient:
        client = self.overlay.client(broker)
        client.subscribe(1, selector)
        return client

    def status(self, name: str) -> BrokerStatus:
        return self.overlay.brokers[name].status()


def pending(client: TestClient) -> list[tuple[str, ...]]:
    """What was not in force yet, each time that the client was told that a subscription is."""
    return [each.pending for each in client.heard if isinstance(each, f.Subscribed)]


def test_a_broker_that_is_added_gets_what_is_published_from_then_on() -> None:
    fleet = Fleet(("pb", "ib"))
    first = fleet.subscriber("ib")
    publisher = fleet.overlay.client("pb")
    publisher.publish({"number": 0})
    fleet.become(("pb", "ib"), ("sb", "ib"))
    second = fleet.subscriber("sb")
    fleet.overlay.wait(1_000)
    assert pending(second) == [()]
    publisher.publish({"number": 1}, {"number": 2})
    fleet.overlay.wait(1_000)
    assert (first.numbers(), second.numbers()) == ([0, 1, 2], [1, 2])


def test_a_link_that_is_removed_is_ended_with_the_reason_and_routed_around() -> None:
    fleet = Fleet(("pb", "ib"), ("ib", "sb"), ("pb", "sb"))
    subscriber, publisher = fleet.subscriber("sb"), fleet.overlay.client("pb")
    publisher.publish({"number": 0})
    fleet.become(("pb", "ib"), ("ib", "sb"))
    publisher.publish({"number": 1})
    fleet.overlay.wait(3_000)
    assert subscriber.numbers() == [0, 1]
    assert fleet.status("pb").links == ["ib"]
    closed = [dict(each.fields) for each in fleet.overlay.records if each.event == "closed"]
    assert closed[0] == {"peer": "sb", "code": "removed", "reason": "there is no link between pb and sb any more"}


def test_a_neighbour_that_has_not_heard_of_the_removal_is_refused() -> None:
    fleet = Fleet(("pb", "sb"), ("pb", "ib"), ("ib", "sb"))
    fleet.write(("pb", "ib"), ("ib", "sb"))
    fleet.apply("pb")
    fleet.overlay.link("sb", "pb")
    assert fleet.status("pb").links == ["ib"]
    assert "refused" in [dict(each.fields).get("code") for each in fleet.overlay.records]


def test_a_broker_that_is_removed_is_served_until_the_last_has_heard_of_it_and_then_forgotten() -> None:
    fleet = Fleet(("pb", "ib"), ("ib", "sb"), ("ib", "tb"))
    stays, goes = fleet.subscriber("sb"), fleet.subscriber("tb", "number > 0")
    publisher = fleet.overlay.client("pb")
    fleet.write(("pb", "ib"), ("ib", "sb"))
    fleet.apply("pb", "sb")
    fleet.overlay.wait(2_000)
    publisher.publish({"number": 1})
    fleet.overlay.wait(2_000)
    assert goes.numbers() == [1]
    assert fleet.overlay.brokers["pb"]._filters.version_of("tb") != (-1, -1)
    fleet.apply("ib")
    publisher.publish({"number": 2})
    fleet.overlay.wait(2_000)
    assert (stays.numbers(), goes.numbers()) == ([1, 2], [1])
    for name in ("pb", "ib", "sb"):
        broker = fleet.overlay.brokers[name]
        assert broker.status().brokers == ["ib", "pb", "sb"]
        assert broker._filters.version_of("tb") == (-1, -1)
        assert "tb" not in [each.origin for each in broker._topology.states]


def test_what_is_said_of_a_forgotten_host_by_one_who_does_not_know_harms_nobody() -> None:
    fleet = Fleet(("pb", "ib"), ("ib", "tb"), ("pb", "tb"))
    fleet.subscriber("tb", "x = 2")
    fleet.write(("pb", "ib"))
    fleet.overlay.cut("ib", "tb")
    fleet.apply("pb")
    assert fleet.status("pb").brokers == ["ib", "pb"]
    fleet.overlay.link("ib", "tb")
    fleet.subscriber("tb", "x = 1")
    fleet.overlay.wait(1_000)
    assert fleet.status("pb").links == ["ib"]
    assert fleet.overlay.brokers["pb"].malformed == 0


def test_a_broker_that_comes_back_is_told_of_whole_again() -> None:
    fleet = Fleet(("pb", "ib"), ("ib", "tb"))
    publisher, subscriber = fleet.overlay.client("pb"), fleet.subscriber("tb")
    fleet.overlay.cut("ib", "tb")
    fleet.write(("pb", "ib"))
    fleet.apply("pb")
    assert fleet.overlay.brokers["pb"]._filters.version_of("tb") == (-1, -1)
    # The one in between never heard of the removal: that the other returns is nothing new to it.
    fleet.overlay.link("ib", "tb")
    fleet.write(("pb", "ib"), ("ib", "tb"))
    fleet.apply("pb")
    assert "again" in [dict(each.fields).get("code") for each in fleet.overlay.records]
    fleet.dial()
    publisher.publish({"number": 7})
    fleet.overlay.wait(2_000)
    assert subscriber.numbers() == [7]
    assert fleet.status("pb").links == ["ib"]


def test_the_pubends_of_a_broker_that_is_removed_are_no_longer_waited_for() -> None:
    fleet = Fleet(("pb", "ib"), ("pb2", "ib"), ("ib", "sb"))
    before = fleet.subscriber("sb")
    fleet.overlay.client("pb2").publish({"number": 1})
    fleet.overlay.wait(1_000)
    fleet.become(("pb", "ib"), ("ib", "sb"))
    fleet.overlay.wait(2_000)
    after = fleet.subscriber("sb")
    fleet.overlay.client("pb").publish({"number": 2})
    fleet.overlay.wait(2_000)
    assert pending(after) == [()]
    assert (before.numbers(), after.numbers()) == ([1, 2], [2])


def test_positions_on_a_removed_pubend_hinder_nobody_who_comes_back_and_are_refused_to_others() -> None:
    fleet = Fleet(("pb", "ib"), ("pb2", "ib"))
    fleet.become(("pb", "ib"))
    fleet.overlay.wait(2_000)
    returning, new = fleet.overlay.client("ib"), fleet.overlay.client("ib")
    returning.subscribe(1, "", ("pb2.a", 5), resumes=True)
    new.subscribe(1, "", ("pb2.a", 5))
    fleet.overlay.wait(1_000)
    assert [each.reason for each in new.heard if isinstance(each, f.Refused)] == [
        "no guaranteed pubend 'pb2.a' in this overlay; there are: pb.a"
    ]
    fleet.overlay.client("pb").publish({"number": 1})
    fleet.overlay.wait(1_000)
    assert returning.numbers() == [1]


def test_the_pubends_of_a_broker_that_comes_back_go_on_where_they_were() -> None:
    fleet = Fleet(("pb", "ib"), ("pb2", "ib"))
    subscriber = fleet.subscriber("ib")
    fleet.overlay.client("pb2").publish({"number": 1})
    fleet.overlay.wait(1_000)
    fleet.write(("pb", "ib"))
    fleet.apply()
    fleet.overlay.wait(2_000)
    fleet.overlay.client("pb2").publish({"number": 2})
    fleet.overlay.crash("pb2")
    fleet.overlay.wait(2_000)
    assert subscriber.numbers() == [1]
    fleet.become(("pb", "ib"), ("pb2", "ib"))
    fleet.overlay.client("pb2").publish({"number": 3})
    fleet.overlay.wait(3_000)
    assert subscriber.numbers() == [1, 2, 3]


def test_a_new_neighbour_is_waited_for_by_subscriptions_and_a_removed_one_is_not() -> None:
    fleet = Fleet(("pb", "ib"))
    fleet.write(("pb", "ib"), ("ib", "pb2"))
    fleet.apply()
    client = fleet.subscriber("ib")
    assert client.all(f.Subscribed) == []
    fleet.write(("pb", "ib"))
    fleet.apply()
    assert len(client.all(f.Subscribed)) == 1


def test_clients_whose_rights_have_changed_must_come_again_and_others_stay() -> None:
    own = Rule("feed-%", publish=None)
    fleet = Fleet(access=Access({"feed-1": KEY, "reader": KEY, "other": KEY}, (own, Rule("%"))))
    clients = {name: fleet.overlay.client("pb", name, KEY) for name in ("feed-1", "reader", "other")}
    rule = Rule("feed-%", publish=Selector.parse("x = 1"))
    fleet.access = Access({"feed-1": KEY, "reader": KEY, "other": OTHER_KEY}, (rule, Rule("%")))
    fleet.apply()
    assert {name: client.closed.code if client.closed else "" for name, client in clients.items()} == {
        "feed-1": "changed",
        "reader": "",
        "other": "changed",
    }
    assert fleet.overlay.client("pb", "other", KEY).closed is not None
    assert fleet.overlay.client("pb", "other", OTHER_KEY).closed is None


@pytest.mark.parametrize(("before", "after", "stays"), [("", "", True), (KEY, "", True), ("", KEY, False)])
def test_an_overlay_may_be_opened_and_closed(before: str, after: str, stays: bool) -> None:
    def access(token: str) -> Access:
        return Access({"reader": token} if token else {})

    fleet = Fleet(access=access(before))
    client = fleet.overlay.client("pb", "reader", before)
    fleet.access = access(after)
    fleet.apply()
    assert (client.closed is None) == stays


def test_bounds_of_connections_that_are_there_change_too() -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb",)), BrokerSettings("sb", neighbours=("pb",)))
    overlay.link("pb", "sb")
    client, broker = overlay.client("pb"), overlay.brokers["pb"]
    changed = replace(overlay.settings["pb"], client_outbox_bytes=111, link_outbox_bytes=222, connections_max=2)
    broker.apply(changed, now_ms=overlay.now_ms)
    link = broker._connections.links["sb"]
    assert broker.outbox(client.connection).data_bytes_max == 111
    assert link.outbox.data_bytes_max == 222
    assert overlay.stranger("pb").closed is not None


def test_what_needs_a_new_start_is_named_and_nothing_is_changed() -> None:
    fleet = Fleet(("pb", "ib"))
    broker = fleet.overlay.brokers["pb"]
    changed = replace(fleet.settings_of("pb"), pubends=("pb.a", "pb.b"), lease_ms=9_000, neighbours=())
    reason = r"^needs a restart of broker pb: pubends \(pb\.a to pb\.a, pb\.b\); lease_ms \(5000 to 9000\)$"
    with pytest.raises(SettingsError, match=reason):
        broker.apply(changed, now_ms=fleet.overlay.now_ms)
    assert broker.status().links == ["ib"]
    assert broker.settings.neighbours == ("ib",)


def test_only_settings_that_exist_may_change_and_no_identity_does() -> None:
    names = {each.name for each in fields(BrokerSettings)}
    assert names >= CHANGEABLE
    assert not {"name", "overlay", "number", "pubends", "best_effort"} & CHANGEABLE
    assert needs_restart(BrokerSettings("a"), BrokerSettings("a", neighbours=("b",), retain_ms=1)) == []


PAIRS = (("pb", "ab"), ("ab", "bb"), ("bb", "cb"), ("cb", "pb"), ("pb", "bb"))
plans = st.lists(
    st.tuples(st.sets(st.sampled_from(PAIRS), min_size=1), st.permutations(("pb", "ab", "bb", "cb"))), max_size=8
)


@settings(max_examples=60, deadline=None)
@given(plans)
def test_however_the_file_changes_and_in_whatever_order_brokers_hear_of_it_nothing_is_lost(
    plans: list[tuple[set[Link], list[str]]],
) -> None:
    fleet = Fleet(*PAIRS)
    subscribers = [fleet.subscriber(name) for name in ("pb", "ab", "bb")]
    publisher, count = fleet.overlay.client("pb"), 0
    fleet.overlay.wait(1_000)
    for links, order in plans:
        # Those who host subscribers stay in the file; the last one may come and go.
        kept = [pair for pair in PAIRS if pair in links]
        fleet.links = tuple(kept)
        fleet.names = tuple(sorted({"pb", "ab", "bb", *fleet.named(fleet.links)}))
        if "cb" in fleet.names and "cb" not in fleet.overlay.brokers:
            fleet.overlay.settings["cb"] = fleet.settings_of("cb")
            fleet.overlay.wait(1)
            fleet.overlay.start("cb")
        for name in order:
            if name in fleet.overlay.brokers:
                fleet.apply(name)
            publisher.publish({"number": count})
            count += 1
            fleet.overlay.wait(30)
        if "cb" in fleet.overlay.brokers and "cb" not in fleet.names:
            fleet.overlay.crash("cb")
        fleet.dial()
        fleet.overlay.wait(700)
    fleet.become(*PAIRS)
    fleet.overlay.wait(10_000)
    assert [each.numbers() for each in subscribers] == [list(range(count))] * 3
    assert all(fleet.status(name).brokers == ["ab", "bb", "cb", "pb"] for name in fleet.overlay.brokers)
