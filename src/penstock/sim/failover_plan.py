"""Draws which pubends of a campaign have candidates, and who these are (decision 24)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from penstock.broker.candidate import LeaseSettings
from penstock.broker.settings import BrokerSettings
from penstock.sim.candidates import HomePlan
from penstock.sim.delivery_plan import DeliveryPlan

__all__ = ["draw_homes"]

_LEASES_MS: Final = (500, 2_000, 2_000)
_ANSWERS_MS: Final = (300, 1_000, 4_000)
"""How long the database may take to answer, at most twice the lease."""
_ALL: Final = 0.4
"""Share of overlays in which all guaranteed pubends have candidates."""
_SOME: Final = 0.6
"""Probability that a pubend has candidates in the others."""
_CANDIDATES: Final = (2, 2, 3)


def draw_homes(plan: DeliveryPlan, chance: Random) -> DeliveryPlan:
    """Give candidates to some or all guaranteed pubends of a plan, to at least one."""
    names = [settings.name for settings in plan.brokers]
    guaranteed = [pubend for host in plan.hosts for pubend in host.pubends if pubend not in host.best_effort]
    moved = guaranteed
    if chance.random() >= _ALL:
        moved = [pubend for pubend in guaranteed if chance.random() < _SOME] or guaranteed[:1]
    lease = LeaseSettings(chance.choice(_LEASES_MS))
    homes: list[HomePlan] = []
    for number, pubend in enumerate(moved, start=len(names) + 1):
        candidates = chance.sample(names, min(len(names), chance.choice(_CANDIDATES)))
        answer_ms = min(chance.choice(_ANSWERS_MS), 2 * lease.lease_ms)
        settings = _settings_of(plan, pubend, number)
        homes.append(HomePlan(settings, tuple(candidates), lease, answer_ms))
    members = (*names, *(home.name for home in homes))
    kept = tuple(_without(settings, homes, members) for settings in plan.brokers)
    joined = tuple(replace(home, settings=_member(home.settings, homes, members)) for home in homes)
    return replace(plan, brokers=kept, homes=joined)


def _settings_of(plan: DeliveryPlan, pubend: str, number: int) -> BrokerSettings:
    """The settings of the home of a pubend, which so far was its broker's own."""
    host = next(settings for settings in plan.brokers if pubend in settings.pubends)
    return replace(
        host,
        name=f"{pubend}.home",
        number=number,
        pubends=(pubend,),
        best_effort=(),
        last_values=tuple(view for view in host.last_values if view[0] == pubend),
        neighbours=(),
    )


def _without(settings: BrokerSettings, homes: list[HomePlan], members: tuple[str, ...]) -> BrokerSettings:
    """The settings of a broker that has lost pubends to homes, and is a candidate for some."""
    moved = {home.pubend for home in homes}
    beside = tuple(home.name for home in homes if settings.name in home.candidates)
    kept = replace(
        settings,
        pubends=tuple(pubend for pubend in settings.pubends if pubend not in moved),
        last_values=tuple(view for view in settings.last_values if view[0] not in moved),
        neighbours=(*settings.neighbours, *beside),
    )
    return _member(kept, homes, members)


def _member(settings: BrokerSettings, homes: list[HomePlan], members: tuple[str, ...]) -> BrokerSettings:
    return replace(settings, members=members, homes=tuple(home.name for home in homes))
