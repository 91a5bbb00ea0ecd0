"""Pubends that keep last values, in campaigns: which ones, and a law from outside the brokers.

**Last values**: whoever begins with the last values of these pubends gets, of each key, the newest durable message: as
a value, or as a message that comes after it, though most logs were trimmed long ago. When everything is at rest, the
values alone are exactly these. Nothing else will do where the newest message never expires and can be read. A newer one
may come in its place that has a lifetime, since brokers' clocks differ, or whose record was damaged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Final, TypeAlias

from penstock.model.body import decode_attributes
from penstock.model.expiry import EXPIRES
from penstock.model.keys import Key, key_of
from penstock.model.tick import Tick, format_tick
from penstock.sim.client import SimClient
from penstock.sim.delivery_plan import DeliveryPlan

__all__ = ["Views", "broken", "draw_views"]

_KEPT: Final = 0.5
"""Probability that an overlay has pubends that keep last values."""
_ATTRIBUTES: Final = ("symbol", "volume")
"""One with few values, and one with more than there are messages in most logs."""
_ENDLESS_MS: Final = 10**9
"""Lifetimes above this do not end within a run, whatever the clocks say."""

_Place: TypeAlias = tuple[int, str]
"""Tick and pubend: in this order messages are newer than others."""


@dataclass(slots=True, frozen=True)
class Views:
    """The pubends of an overlay that keep last values, all by one attribute."""

    attribute: str = ""
    pubends: tuple[str, ...] = ()

    def described(self) -> list[str]:
        """The views as readable lines."""
        return [f"last values by {self.attribute}: {', '.join(self.pubends)}"] if self.pubends else []


def draw_views(plan: DeliveryPlan, chance: Random) -> tuple[DeliveryPlan, Views]:
    """Let some of the guaranteed pubends of a plan keep last values, or none."""
    attribute, is_wanted = chance.choice(_ATTRIBUTES), chance.random() < _KEPT
    chosen: list[str] = []
    for host in plan.hosts if is_wanted else []:
        guaranteed = [each for each in host.pubends if each not in host.best_effort]
        chosen += chance.sample(guaranteed, chance.randrange(1, len(guaranteed) + 1))
    views = tuple((pubend, attribute) for pubend in chosen)
    brokers = tuple(
        replace(each, last_values=tuple(view for view in views if view[0] in each.pubends), all_last_values=views)
        for each in plan.brokers
    )
    return replace(plan, brokers=brokers), Views(attribute, tuple(chosen))


def broken(
    views: Views,
    client: SimClient,
    number: int,
    journal: Iterable[tuple[str, int, bytes]],
    excused: Collection[bytes],
    *,
    is_at_rest: bool,
) -> list[str]:
    """Complaints about a subscription that began with last values; ``is_at_rest`` if nothing came after these."""
    durable: dict[Key, list[tuple[_Place, bytes]]] = {}
    for pubend, tick, body in journal:
        value = decode_attributes(body).get(views.attribute)
        if pubend in views.pubends and value is not None:
            durable.setdefault(key_of(value), []).append(((tick, pubend), body))
    got: dict[Key, list[_Place]] = {}
    for delivery in client.deliveries:
        value = delivery.attributes.get(views.attribute)
        if delivery.subscription == number and value is not None:
            got.setdefault(key_of(value), []).append((delivery.tick, delivery.pubend))
    problems: list[str] = []
    for key, messages in durable.items():
        right, is_certain = _right_ones(messages, excused)
        found = got.get(key, [])
        name = f"{client.name}: {views.attribute} {key[1]!r}"
        if is_at_rest and len(found) > 1:
            problems.append(f"{name} has {len(found)} last values")
        elif is_at_rest and found and found[0] not in right:
            problems.append(f"{name} has {_shown(found[0])} as its last value, and {_shown(right[-1])} is newer")
        elif is_certain and not any(place in right for place in found) and not _was_told(client, number, right):
            problems.append(f"{name} lacks its last value {_shown(right[-1])}")
    return problems


def _right_ones(messages: list[tuple[_Place, bytes]], excused: Collection[bytes]) -> tuple[list[_Place], bool]:
    """The messages that may be the last value, the newest first, and whether one of them must be."""
    right: list[_Place] = []
    for place, body in sorted(messages, reverse=True):
        right.append(place)
        lifetime_ms = decode_attributes(body).get(EXPIRES)
        is_endless = lifetime_ms is None or (isinstance(lifetime_ms, int) and lifetime_ms > _ENDLESS_MS)
        if is_endless and body not in excused:
            return right, True
    return right, False


def _was_told(client: SimClient, number: int, right: list[_Place]) -> bool:
    """Whether a client was told that it has lost one of these messages."""
    told = [lost for lost in client.lost if number in lost.numbers]
    return any(lost.pubend == pubend and lost.first <= tick <= lost.last for tick, pubend in right for lost in told)


def _shown(place: _Place) -> str:
    return f"{place[1]} {format_tick(Tick(place[0]))}"
