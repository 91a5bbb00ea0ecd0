"""The status of a broker: what it says is understood, by whoever knows less and whoever knows more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from overlay import Overlay, chain
from penstock.ajil import Aup
from penstock.ajil.settings import LimitSettings
from penstock.balancing.settings import BalancingSettings
from penstock.protocol.status import (
    BrokerStatus,
    CardStatus,
    DecisionStatus,
    SessionStatus,
    SlowedStatus,
    TokenStatus,
    with_homes,
)
from penstock.token.settings import Plan
from penstock.tracking.settings import TrackingSettings

EDGE = "role cluster state input output delay_s cpu memory peers session last accuracy counts"
HEAD = "role cluster state input output delay_s edges heads session counts own"
WALKING = (
    "variant members op_ms skip_ms min_ms max_ms gen_ms k_load overloaded holding operating operated_ms fence "
    "clock_faults operations skips discards regenerations handovers unanswered overlaps overruns malformed"
)
LIMIT = (
    "policy version author estimate_bytes_s estimate_packets_s slowed_channels slowed reports_sent reports_heard "
    "malformed held"
)
TRACKING = (
    "strategy recorded histories memory_bytes filters_kept waiting_bytes values bytes filters_dropped attachments "
    "aliases damaged"
)


def running() -> Overlay:
    overlay = chain("pb", "sb", guaranteed=True, silent_ms=10**9)
    overlay.wait(1_000)
    overlay.client("sb", "reader").durable(1, "orders")
    overlay.client("pb").publish({"number": 1})
    overlay.wait(5_000)
    return overlay


@pytest.mark.parametrize("name", ["pb", "sb"])
def test_what_a_broker_says_is_what_is_understood(name: str) -> None:
    status = running().brokers[name].status()
    assert msgspec.json.decode(msgspec.json.encode(status), type=BrokerStatus) == status


def test_it_tells_of_pubends_streams_and_durable_subscriptions() -> None:
    overlay = running()
    pubend = overlay.brokers["pb"].status().guaranteed.pubends["pb.a"]
    assert (pubend.durables["orders"].host, pubend.durable_count) == ("sb", 1)
    stream = overlay.brokers["sb"].status().guaranteed.streams["pb.a"]
    assert stream.horizon <= pubend.last_tick + 1


def test_a_broker_that_says_less_is_understood_and_what_one_says_besides_is_left_alone() -> None:
    status = msgspec.json.decode(
        b'{"broker": "old", "guaranteed": {"pubends": {"p": {}}}, "news": [1]}', type=BrokerStatus
    )
    assert (status.broker, status.clients, status.counts) == ("old", 0, {})
    assert status.guaranteed.pubends["p"].last_tick == 0


def told(status: msgspec.Struct) -> dict[str, Any]:
    """A status as it travels."""
    figures = msgspec.json.decode(msgspec.json.encode(status))
    assert isinstance(figures, dict)
    return figures


def busy(**settings: Any) -> Overlay:
    """Two edges around a head, with all mechanisms."""
    every = {
        "balancing": BalancingSettings(is_on=True),
        "token": Plan(op_ms=1_000),
        "limit": LimitSettings(Aup(limit_bytes_s=1_000, version=1)),
    }
    overlay = chain("e1", "h", "e2", **every, **settings)
    overlay.wait(2_000)
    return overlay


@pytest.mark.parametrize(("name", "balancing"), [("e1", EDGE), ("h", HEAD)])
def test_the_figures_of_mechanisms_have_these_names_in_this_order(name: str, balancing: str) -> None:
    status = told(busy().brokers[name].status())
    assert list(status["mechanisms"]) == ["balancing", "token", "ajil"]
    assert list(status["mechanisms"]["balancing"]) == balancing.split()
    assert list(status["mechanisms"]["token"]) == WALKING.split()
    assert list(status["mechanisms"]["ajil"]) == LIMIT.split()
    assert list(status["tracking"]) == TRACKING.split()


def test_a_head_that_shares_its_own_clients_has_figures_like_those_of_an_edge() -> None:
    status = busy().brokers["h"].status()
    balancing = told(status)["mechanisms"]["balancing"]
    assert list(balancing["own"]) == EDGE.split()
    assert status.balancing is not None
    assert status.balancing.own is not msgspec.UNSET
    assert (status.balancing.own.role, status.balancing.own.cluster) == ("head", "$heads")


def test_before_the_first_session_an_edge_has_no_session_and_an_empty_decision() -> None:
    balancing = told(busy().brokers["e1"].status())["mechanisms"]["balancing"]
    assert (balancing["session"], balancing["last"]) == (None, {})


def test_a_broker_that_tracks_nothing_reports_no_records() -> None:
    status = told(busy(tracking=TrackingSettings(strategy="null")).brokers["e1"].status())
    assert status["tracking"] == {"strategy": "null", "attachments": 0, "aliases": 0, "damaged": 0}


@pytest.mark.parametrize(
    ("status", "names"),
    [
        (SessionStatus(1, "b", "moving", 2, 1), "number partner phase total arrived"),
        (SessionStatus(partner="b", phase="asking"), "partner phase"),
        (
            DecisionStatus(1, "b", "input", 0.2, overload=False, moved=2, cards=[]),
            "session partner metric difference overload moved cards",
        ),
        (CardStatus(), "interest subscribers difference covered reduces_msg_s output_bytes_s"),
        (SlowedStatus(), "publisher group unit quota_s why"),
        (TokenStatus(), WALKING.removesuffix(" malformed")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_parts_of_them_have_these_names_in_this_order(status: msgspec.Struct, names: str) -> None:
    assert list(told(status)) == names.split()


def test_the_status_of_each_mechanism_of_a_broker_can_be_read() -> None:
    status = busy().brokers["h"].status()
    assert status.balancing is not None
    assert (status.balancing.role, status.balancing.cpu) == ("head", msgspec.UNSET)
    assert status.token is not None
    assert status.token.members == 3
    assert status.limit is not None
    assert status.limit.version == 1


def test_a_broker_without_mechanisms_has_no_status_of_them() -> None:
    status = running().brokers["pb"].status()
    assert (status.balancing, status.token, status.limit) == (None, None, None)


def test_mechanisms_of_a_caller_keep_figures_of_their_own() -> None:
    figures = {"gossip": {"heard": 3, "by": {"a": [1]}}}
    status = msgspec.convert({"broker": "b", "mechanisms": figures}, BrokerStatus)
    assert told(status)["mechanisms"] == figures


def test_figures_of_another_type_spoil_only_the_status_they_are_in() -> None:
    status = msgspec.convert({"broker": "b", "mechanisms": {"balancing": {"input": "much"}}}, BrokerStatus)
    assert status.token is None
    with pytest.raises(msgspec.ValidationError, match="input"):
        _ = status.balancing


def test_a_home_counts_as_a_broker_and_of_its_lives_the_latest() -> None:
    old, new = BrokerStatus("q.home", incarnation=1), BrokerStatus("q.home", incarnation=2)
    first, second = BrokerStatus("pb1", homes={"q.home": new}), BrokerStatus("pb2", homes={"q.home": old})
    found = with_homes({"pb1": first, "pb2": second, "sb": BrokerStatus("sb")})
    assert list(found) == ["pb1", "q.home", "pb2", "sb"]
    assert found["q.home"] is new
    assert with_homes({"pb2": second, "pb1": first})["q.home"] is new
