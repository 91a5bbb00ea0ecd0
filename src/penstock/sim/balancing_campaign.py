"""Campaigns against balancing: those against guaranteed delivery, with brokers that balance their load meanwhile.

All brokers are edges of one cluster, whatever the overlay looks like; or roles follow the links, and heads share their
own clients while clusters of edges balance. Their measurements are made up and change all the time, so that some broker
always has load to give away. Brokers crash and links are cut in the middle of sessions. The laws stay the same: nothing
lost, duplicated or out of order, and everything comes to rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

from penstock.balancing.metrics import HostFigures
from penstock.balancing.settings import BalancingSettings
from penstock.broker.broker import Broker
from penstock.broker.durable import Recovered
from penstock.broker.settings import BrokerSettings
from penstock.model.ports import Rng
from penstock.sim.delivery import DeliveryCampaign
from penstock.sim.node import SimBroker

__all__ = ["BalancingCampaign"]

_SETTINGS: Final = BalancingSettings(
    is_on=True,
    cluster="all",
    role="edge",
    samples_max=3,
    sample_ms=600,
    measure_ms=200,
    smoothing_ms=600,
    detection_ms=300,
    pie_ms=500,
    peer_ms=3_000,
    reply_ms=400,
    migration_ms=300,
    stabilize_ms=400,
    # Made-up figures jump all the time: no broker would ever be steady.
    stabilize_share=10.0,
    fruitless_ms=1_000,
    return_ms=1_500,
    inert_ms=1_000,
)
_WITH_HEADS: Final = replace(_SETTINGS, cluster="", role="", global_session_ms=2_000)
_MEASURE_US: Final = 200_000
_MESSAGES: Final = 4
"""Publications that brokers claim to get between two measurements."""
_SLOPES_NS: Final = (500_000, 2_000_000, 10_000_000, 40_000_000)
"""Matching times per subscription to draw from."""
_HARMED: Final = 0.5
"""Probability that a broker in a session is harmed, at each blow."""


class BalancingCampaign(DeliveryCampaign):
    """One seed's overlay, harm, sessions and healing."""

    def __init__(self, seed: int | str, *, with_heads: bool = False, **options: Any) -> None:
        """Draw an overlay as in the delivery campaign; with heads, brokers with several neighbours are heads."""
        balancing = _WITH_HEADS if with_heads else _SETTINGS

        def balanced(
            settings: BrokerSettings, *, incarnation: int, rng: Rng, recovered: Recovered | None = None
        ) -> Broker:
            settings = replace(settings, balancing=balancing)
            return Broker(settings, incarnation=incarnation, rng=rng, recovered=recovered)

        super().__init__(seed, make_broker=balanced, **options)
        for broker in self.world.brokers.values():
            # Later changes start from these settings: a change of neighbours would otherwise switch balancing off.
            broker.settings = replace(broker.settings, balancing=balancing)
        self._loads = self.world.workload
        self._slopes = dict.fromkeys(self.world.brokers, _SLOPES_NS[0])
        self._claimed: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        """Sessions, their outcomes, and harm in the middle of them."""
        self.world.clock.after(_MEASURE_US, self._measure)

    def _measure(self) -> None:
        for name, broker in self.world.brokers.items():
            if broker.is_up:
                subscriptions = _core(broker).rooms.subscribers.ordinary
                self._claimed[name] += _MESSAGES
                self._spent[name] += _MESSAGES * self._slopes[name] * subscriptions
                claimed = self._claimed[name]
                broker.measure(HostFigures(0.1, 0.1, 0.0, claimed, claimed, self._spent[name]))
        self.world.clock.after(_MEASURE_US, self._measure)

    def _meddle(self) -> None:
        for name in self._slopes:
            if self._loads.random() < 0.3:
                self._slopes[name] = self._loads.choice(_SLOPES_NS)
        busy = [name for name, broker in self.world.brokers.items() if broker.is_up and self._is_busy(broker)]
        self.counts["busy"] += len(busy)
        if busy and self._loads.random() < _HARMED:
            self._harm_session(self._loads.choice(busy))

    def _harm_session(self, name: str) -> None:
        self.counts["harmed"] += 1
        if self._loads.random() < 0.5:
            self.faults.crash(name)
        else:
            clients = [client.name for client in self.subscribers]
            self.faults.cut_client(self._loads.choice(clients), name)

    def _heal(self) -> str:
        # From now on all brokers are equally fast, so that sessions end by themselves.
        self._slopes = dict.fromkeys(self._slopes, 1_000)
        unrest = super()._heal()
        for broker in self.world.brokers.values():
            balancing = _core(broker).balancing
            assert balancing is not None
            for part in balancing.parts:
                self.counts += Counter(part.counts)
                if part.session is not None:
                    unrest = unrest or f"{broker.name} is still in a session"
        return unrest

    @staticmethod
    def _is_busy(broker: SimBroker) -> bool:
        balancing = _core(broker).balancing
        return balancing is not None and any(part.session is not None for part in balancing.parts)


def _core(broker: SimBroker) -> Broker:
    core = broker.core
    assert isinstance(core, Broker)
    return core
