"""What a seed of the campaign ``sharing`` has besides what all seeds have, drawn by generators of its own.

So seeds that were looked at before something was added still do the same without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Final

from penstock.sim.delivery_plan import DeliveryPlan
from penstock.sim.worker import Worker

__all__ = ["DEAD_PUBEND", "Extras"]

DEAD_PUBEND: Final = "dead"
_DEAD, _CLERK, _SMALL = 0.5, 0.5, 0.6
"""Share of seeds with dead letters; of these, with somebody who takes them away; of these, with little room."""
_ROOM_BYTES: Final = (4_000, 10_000)
_EXPIRING, _SLOW, _CROWDED, _FORGETFUL = 0.4, 0.4, 0.3, 0.35
"""Shares of seeds with messages that expire, with slow workers, with crowds of messages, with groups forgotten."""
_LIFETIMES_S: Final = (None, None, None, 0.05, 2.0, 8.0, 30.0)
_CROWDS_MAX: Final = 3
_CROWDS: Final = 0.2
_FORGETTINGS: Final = 0.12


class Extras:
    """The extras of one seed."""

    def __init__(self, seed: str) -> None:
        """Draw what there is."""
        kinds = Random(f"{seed}/extras")
        self._has_dead_letters = kinds.random() < _DEAD
        self.has_clerk = kinds.random() < _CLERK and self._has_dead_letters
        self._is_small = kinds.random() < _SMALL and self.has_clerk
        self._is_expiring = kinds.random() < _EXPIRING
        self._is_slow = kinds.random() < _SLOW
        self._is_crowded = kinds.random() < _CROWDED
        self._is_forgetful = kinds.random() < _FORGETFUL
        self._kinds = kinds
        self._lifetimes = Random(f"{seed}/lifetimes")
        self.chance: Final = Random(f"{seed}/crowds")
        """For what is done while harm is done."""
        self._crowds = 0

    def add_dead_letters(self, plan: DeliveryPlan) -> DeliveryPlan:
        """The plan with a pubend for dead letters at one of its brokers, if there is to be one."""
        if not self._has_dead_letters:
            return plan
        brokers = [replace(each, dead_letters=DEAD_PUBEND) for each in plan.brokers]
        # Where logs have a maximum somebody has to make room.
        self.has_clerk = self.has_clerk or "retain_bytes_max" in plan.limits
        place = self._kinds.randrange(len(brokers))
        host = replace(brokers[place], pubends=(*brokers[place].pubends, DEAD_PUBEND))
        if self._is_small:
            host = replace(host, retain_bytes_max=self._kinds.choice(_ROOM_BYTES))
        brokers[place] = host
        return replace(plan, brokers=tuple(brokers))

    def deliveries_max(self, number: int) -> int:
        """How often a group hands a message out in vain."""
        return (1, 2, 3, 4)[(self._kinds.randrange(4) + number) % 4] if self._has_dead_letters else 0

    def set_habits(self, workers: Iterable[Worker]) -> None:
        """Make some workers slow, and more of them fail where that leads to dead letters."""
        for worker in workers:
            worker.is_slow = self._is_slow and self._kinds.random() < 0.6
            worker.is_clumsy = self._has_dead_letters and self._kinds.random() < 0.6

    def lifetime_s(self) -> float | None:
        """How long a message lives."""
        return self._lifetimes.choice(_LIFETIMES_S) if self._is_expiring else None

    def is_crowded_now(self) -> bool:
        """Whether a crowd of messages comes now."""
        is_now = self._is_crowded and self._crowds < _CROWDS_MAX and self.chance.random() < _CROWDS
        self._crowds += is_now
        return is_now

    def is_forgotten_now(self) -> bool:
        """Whether a group is to be forgotten now."""
        return self._is_forgetful and self.chance.random() < _FORGETTINGS
