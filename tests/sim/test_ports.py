"""The real broker has the interface that the simulator asks for."""

from __future__ import annotations

import inspect
from random import Random

from penstock.broker.broker import Broker
from penstock.broker.durable import Recovered
from penstock.broker.ports import BrokerPort
from penstock.broker.settings import BrokerSettings
from penstock.sim.ports import MakeBroker


def test_the_broker_is_what_a_world_makes() -> None:
    make: MakeBroker = Broker
    core: BrokerPort = make(BrokerSettings("b1"), incarnation=1, rng=Random(1), recovered=Recovered())
    for name, method in inspect.getmembers(BrokerPort, inspect.isfunction):
        if not name.startswith("_"):
            asked = list(inspect.signature(method).parameters)[1:]
            assert list(inspect.signature(getattr(core, name)).parameters)[: len(asked)] == asked
