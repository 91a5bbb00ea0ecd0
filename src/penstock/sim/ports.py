"""The interface through which the simulator makes brokers: the class itself, or a stand-in for tests."""

from __future__ import annotations

from random import Random
from typing import Protocol

from penstock.broker.durable import Recovered
from penstock.broker.ports import BrokerPort
from penstock.broker.settings import BrokerSettings

__all__ = ["MakeBroker"]


class MakeBroker(Protocol):
    """Makes a broker."""

    def __call__(self, settings: BrokerSettings, *, incarnation: int, rng: Random, recovered: Recovered) -> BrokerPort:
        """A broker that has just started, with what it found on its disk."""
