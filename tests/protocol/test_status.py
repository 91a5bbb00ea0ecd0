"""The status of a broker: what it says is understood, by whoever knows less and whoever knows more."""

from __future__ import annotations

import msgspec
import pytest

from overlay import Overlay, chain
from penstock.protocol.status import BrokerStatus


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
