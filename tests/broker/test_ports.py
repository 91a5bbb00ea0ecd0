"""What a node asks of a broker."""

from __future__ import annotations

from random import Random

from live.support import FakeBroker
from penstock.broker.broker import Broker
from penstock.broker.ports import BrokerPort
from penstock.broker.settings import BrokerSettings
from penstock.tracking.settings import TrackingSettings


def test_the_broker_and_the_tests_own_fit() -> None:
    brokers: list[BrokerPort] = [Broker(BrokerSettings("b1"), incarnation=1, rng=Random(1)), FakeBroker()]
    assert [each.next_deadline() for each in brokers] == [None, None]


def test_a_read_of_records_that_nobody_asked_for_is_ignored() -> None:
    broker = Broker(BrokerSettings("b1", tracking=TrackingSettings(strategy="null")), incarnation=1, rng=Random(1))
    assert broker.kept_read(1, {"mark": b"m", "gap": None}, now_ms=5) == []
