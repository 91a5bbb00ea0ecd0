from __future__ import annotations

import pytest

from overlay import Overlay, chain
from penstock.broker import BrokerSettings
from penstock.broker import frames as f
from penstock.broker.access import Access


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (f.Hello(f.PROTOCOL_VERSION, "broker", "sb", "another", 1), "this is overlay penstock, not another"),
        (f.Hello(f.PROTOCOL_VERSION, "broker", "xb", "penstock", 1), "broker pb has no link with xb"),
        (f.Hello(f.PROTOCOL_VERSION, "broker", "sb", "penstock", 1), "authentication failed"),
        (f.Hello(9, "broker", "sb", "penstock", 1), f"protocol version 9 is not {f.PROTOCOL_VERSION}"),
        (f.Hello(f.PROTOCOL_VERSION, "wizard", "sb", "penstock", 1), "role 'wizard' is not expected here"),
    ],
)
def test_only_a_neighbour_that_proves_to_be_one_gets_a_link(hello: f.Hello, reason: str) -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb",), link_credential="key"))
    stranger = overlay.stranger("pb")
    stranger.say(hello)
    assert stranger.heard == [f.Goodbye("refused", reason)]
    assert overlay.brokers["pb"].status()["links"] == []


def test_a_certificate_of_somebody_else_is_no_proof() -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb",)))
    broker = overlay.brokers["pb"]
    broker.connect(5, now_ms=1, certificate="xb")
    broker.receive(5, [f.Hello(f.PROTOCOL_VERSION, "broker", "sb", "penstock", 1)], now_ms=1)
    assert f.Goodbye("refused", "the certificate is for xb, not sb") in broker.outbox(5).take(10_000)


@pytest.mark.parametrize("role", ["broker", "client"])
def test_where_certificates_are_asked_for_one_without_a_name_is_nobody(role: str) -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb",), access=Access({"sb": "key"}, certificates=True)))
    broker = overlay.brokers["pb"]
    broker.connect(5, now_ms=1, certificate="")
    token = "key" if role == "client" else ""
    broker.receive(5, [f.Hello(f.PROTOCOL_VERSION, role, "sb", "penstock", 1, token)], now_ms=1)
    (goodbye,) = broker.outbox(5).take(10_000)
    assert isinstance(goodbye, f.Goodbye)
    assert goodbye.reason in ("the certificate is for nobody, not sb", "authentication failed")
    assert (broker.status()["links"], broker.status()["clients"]) == ([], 0)


@pytest.mark.parametrize("name", ["sb", "pb", ""])
def test_a_broker_without_neighbours_lets_no_broker_in(name: str) -> None:
    overlay = Overlay(BrokerSettings("pb"))
    stranger = overlay.stranger("pb")
    stranger.say(f.Hello(f.PROTOCOL_VERSION, "broker", name, "penstock", 1))
    assert stranger.heard == [f.Goodbye("refused", f"broker pb has no link with {name}")]


def test_who_answers_a_dialled_link_must_be_the_one_that_was_dialled() -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb", "tb")))
    broker = overlay.brokers["pb"]
    broker.connect(5, now_ms=1, dialled="sb")
    broker.receive(5, [f.Hello(f.PROTOCOL_VERSION, "broker", "tb", "penstock", 1)], now_ms=1)
    assert f.Goodbye("refused", "this should be sb, not tb") in broker.outbox(5).take(10_000)


def test_a_neighbour_that_connects_anew_replaces_its_old_connection() -> None:
    overlay = chain("pb", "sb")
    subscriber = overlay.client("sb")
    subscriber.subscribe(1, "")
    overlay.link("pb", "sb")
    assert overlay.brokers["pb"].status()["links"] == ["sb"]
    assert overlay.brokers["sb"].status()["links"] == ["pb"]
    overlay.client("pb").publish({"a": 1})
    assert subscriber.messages() == [{"a": 1}]


def test_a_subscription_is_confirmed_when_the_pubend_has_answered() -> None:
    overlay = chain("pb", "ib", "sb")
    client = overlay.client("sb")
    client.subscribe(1, "volume > 5")
    client.subscribe(2, "volume > 50")
    assert client.heard[-2:] == [f.Subscribed(1, "volume > 5"), f.Subscribed(2, "volume > 50")]


def test_a_pubend_out_of_reach_is_reported_at_once_as_pending() -> None:
    overlay = chain("pb", "ib", "sb")
    overlay.cut("pb", "ib")
    client = overlay.client("sb")
    client.subscribe(1, "volume > 5")
    assert client.all(f.Subscribed) == [f.Subscribed(1, "volume > 5", ("pb.a",))]


def test_a_pubend_that_does_not_answer_in_time_is_reported_as_pending() -> None:
    overlay = chain("pb", "ib", "sb", subscribe_wait_ms=2_000)
    overlay.loses = f.FilterProbe
    client = overlay.client("sb")
    client.subscribe(1, "volume > 5")
    overlay.wait(1_999)
    assert not client.all(f.Subscribed)
    overlay.wait(1)
    assert client.all(f.Subscribed) == [f.Subscribed(1, "volume > 5", ("pb.a",))]


def test_a_probe_that_was_lost_is_sent_again() -> None:
    overlay = chain("pb", "ib", "sb", subscribe_wait_ms=2_000)
    overlay.loses = f.FilterApplied
    client = overlay.client("sb")
    client.subscribe(1, "volume > 5")
    overlay.loses = None
    overlay.wait(1_000)
    assert client.all(f.Subscribed) == [f.Subscribed(1, "volume > 5")]


def test_a_neighbour_that_was_not_met_since_the_start_is_waited_for() -> None:
    overlay = Overlay(
        BrokerSettings("pb", pubends=("pb.a",), best_effort=("pb.a",), neighbours=("sb",)),
        BrokerSettings("sb", neighbours=("pb",), subscribe_wait_ms=2_000),
    )
    early = overlay.client("sb")
    early.subscribe(1, "volume > 5")
    overlay.wait(2_000)
    assert early.all(f.Subscribed) == [f.Subscribed(1, "volume > 5", ("whatever is behind pb",))]
    early.subscribe(2, "volume > 1")
    overlay.link("pb", "sb")
    overlay.wait(600)
    assert early.heard[-1] == f.Subscribed(2, "volume > 1")


def test_every_filter_update_is_acknowledged() -> None:
    overlay = chain("pb", "ib", "sb")
    client = overlay.client("sb")
    for number in range(5):
        client.subscribe(number, f"a = {number}")
    for broker in overlay.brokers.values():
        for peer in broker._connections.links.values():
            assert peer.sequence is not None
            assert peer.sequence.sent == peer.sequence.acknowledged


def test_more_subscriptions_than_fit_a_frame_reach_a_broker_that_joins_late() -> None:
    overlay = chain("pb", "sb")
    overlay.cut("pb", "sb")
    client = overlay.client("sb")
    for number in range(2_500):
        client.subscribe(number, f"a = {number}")
    overlay.link("pb", "sb")
    assert overlay.brokers["pb"].status()["filters"]["entries"] == 2_500
    overlay.client("pb").publish({"a": 2_499})
    assert client.messages() == [{"a": 2_499}]
    overlay.check_invariants()
