"""What clients are shown of a broker: where names are proved, none of others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from overlay import Overlay, TestClient
from penstock.broker import Access, BrokerSettings, Rule
from penstock.broker.mechanisms.operating import Pin
from penstock.protocol import frames as f
from penstock.protocol.status import BrokerStatus, CandidacyStatus

WORD = "token"
RULES = (Rule("boss", status=True), Rule("team-%", durable="team/%"), Rule("%", publish=None))
GUARDED = Access(dict.fromkeys(("boss", "team-1", "team-2", "alice", "mallory"), WORD), RULES)
NAMES = ("alice-own", "team/x", "team-1", "alice")


def overlay(access: Access = GUARDED) -> Overlay:
    """A broker with durable subscriptions of two clients, of which one is pinned."""
    made = Overlay(BrokerSettings("pb", pubends=("pb.a",), access=access, silent_ms=10**9))
    for name, durable in (("alice", "alice-own"), ("team-1", "team/x")):
        made.client("pb", name, token=WORD).durable(1, durable)
    made.wait(2_000)
    made.brokers["pb"].operate(Pin("alice"), now_ms=made.now_ms)
    return made


def seen(made: Overlay, name: str) -> dict[str, Any]:
    client = made.client("pb", name, token=WORD)
    client.say(f.StatusRequest(7))
    return status_of(client)


def status_of(client: TestClient) -> dict[str, Any]:
    reply = client.heard[-1]
    assert isinstance(reply, f.StatusReply)
    told: dict[str, Any] = json.loads(reply.status)
    return told


def durables(status: dict[str, Any]) -> tuple[list[str], list[str]]:
    guaranteed = status["guaranteed"]
    return sorted(guaranteed["pubends"]["pb.a"]["durables"]), sorted(guaranteed["durables"])


def test_a_client_sees_figures_and_no_names_of_others() -> None:
    status = seen(overlay(), "mallory")
    assert (status["broker"], status["clients"], status["subscriptions"], status["pubends"]) == ("pb", 3, 2, ["pb.a"])
    assert status["guaranteed"]["pubends"]["pb.a"]["durable_count"] == 2
    assert [name for name in NAMES if name in json.dumps(status)] == []


@pytest.mark.parametrize(("name", "shown"), [("alice", ["alice-own"]), ("team-2", ["team/x"]), ("team-1", ["team/x"])])
def test_a_client_sees_its_own_durable_subscriptions_and_those_its_rule_shares(name: str, shown: list[str]) -> None:
    assert durables(seen(overlay(), name)) == (shown, shown)


def test_who_may_see_all_does_as_everybody_where_nobody_proves_a_name() -> None:
    made = overlay()
    status = seen(made, "boss")
    assert durables(status) == (["alice-own", "team/x"], ["alice-own", "team/x"])
    assert status["migration"]["pinned"] == ["alice"]
    assert status.keys() == set(made.brokers["pb"].status().__struct_fields__)
    assert durables(seen(overlay(Access()), "anybody")) == (["alice-own", "team/x"], ["alice-own", "team/x"])


def test_a_status_that_is_cut_has_the_parts_of_the_whole() -> None:
    made = overlay()
    assert seen(made, "mallory").keys() == set(made.brokers["pb"].status().__struct_fields__)


@pytest.mark.parametrize(("access", "named"), [(GUARDED, False), (replace(GUARDED, tokens={}), True)])
def test_a_publisher_that_waits_is_told_for_whom_only_where_nobody_proves_a_name(access: Access, named: bool) -> None:
    settings = BrokerSettings("pb", pubends=("pb.a",), access=access, silent_ms=10**9, retain_bytes_max=100)
    made = Overlay(settings)
    made.client("pb", "alice", token=WORD).durable(1, "alice-own")
    made.wait(2_000)
    publisher = made.client("pb", "team-1", token=WORD)
    for number in range(5):
        publisher.publish({"number": number})
    made.wait(1_000)
    (told,) = {each.reason for each in publisher.heard if isinstance(each, f.HeldBack)}
    assert "the furthest behind is" in told
    assert ("alice-own" in told) is named


def test_a_client_that_does_not_read_its_status_gets_the_same_one_again() -> None:
    made = overlay()
    client = made.client("pb", "mallory", token=WORD)
    broker, connection = made.brokers["pb"], client.connection
    broker.receive(connection, [f.StatusRequest(number) for number in range(10)], now_ms=made.now_ms)
    waiting = broker.outbox(connection).take(1_000_000)
    statuses = [each.status for each in waiting if isinstance(each, f.StatusReply)]
    assert len(statuses) == 10
    assert len({id(each) for each in statuses}) == 1
    assert [each.number for each in waiting if isinstance(each, f.StatusReply)] == list(range(10))


class Beside:
    """A home that runs beside the broker, and keeps a durable subscription that holds publishers back."""

    def __init__(self) -> None:
        pubend = {"durables": {"alice-own": {"client": "alice"}}, "durable_count": 1, "groups": {"team/x": {}}}
        guaranteed = {"pubends": {"q": pubend}, "held_back": "the furthest behind is alice-own"}
        self.home = msgspec.convert({"broker": "q.home", "guaranteed": guaranteed}, BrokerStatus)

    def candidacies(self) -> list[CandidacyStatus]:
        return [CandidacyStatus("q", holder="pb", epoch=3, replicas=1, held_back="alice-own", problem="db-7 is down")]

    def brokers(self) -> dict[str, BrokerStatus]:
        return {"q.home": msgspec.convert(msgspec.to_builtins(self.home), BrokerStatus)}


def test_of_a_home_beside_the_broker_a_client_sees_figures_and_no_names() -> None:
    made = Overlay(BrokerSettings("pb", access=GUARDED, silent_ms=10**9), beside=Beside())
    told = seen(made, "mallory")
    home, (candidacy,) = told["homes"]["q.home"], told["candidacies"]
    assert home["guaranteed"]["pubends"]["q"]["durable_count"] == 1
    assert (candidacy["holder"], candidacy["epoch"], candidacy["replicas"]) == ("pb", 3, 1)
    assert home["guaranteed"]["held_back"] == candidacy["held_back"] == "for a reason that operators see"
    assert [name for name in (*NAMES, "db-7") if name in json.dumps(told)] == []
    assert "alice-own" in json.dumps(seen(made, "boss"))
