"""A broker has the mechanisms that its settings ask for, and gets a limit at run time."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from penstock.ajil.settings import LimitSettings
from penstock.balancing.settings import BalancingSettings
from penstock.broker import Broker, BrokerSettings


def mechanisms_of(broker: Broker) -> set[str]:
    return set(broker.status().mechanisms)


def test_settings_decide_which_mechanisms_there_are() -> None:
    settings = BrokerSettings(name="b1", pubends=("p",))
    plain = Broker(settings, incarnation=1, rng=Random(1))
    assert plain.balancing is None
    balanced = Broker(replace(settings, balancing=BalancingSettings(is_on=True)), incarnation=1, rng=Random(1))
    assert balanced.balancing is not None
    assert mechanisms_of(balanced) - mechanisms_of(plain) == {balanced.balancing.name}


def test_a_limit_that_comes_later_is_one_more_mechanism() -> None:
    settings = BrokerSettings(name="b1", pubends=("p",))
    broker = Broker(settings, incarnation=1, rng=Random(1))
    before = mechanisms_of(broker)
    broker.apply(replace(settings, limit=LimitSettings()), now_ms=10)
    broker.apply(replace(settings, limit=LimitSettings()), now_ms=20)
    assert len(mechanisms_of(broker) - before) == 1
