"""Holds messages back before they get a tick, to keep a pubend to its allowed rate ([Gryphon] section 4).

The paper withholds acknowledgements; here a message that has a tick is logged and acknowledged like any other, and the
others wait for their tick in the order in which they came. The backlog is bounded by the credit of its publishers, who
are told to send less at a time while their pubend is limited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.broker.sources import Batch, Source
from penstock.congestion.pubend import PubendControl
from penstock.model.values import AttributeValue

__all__ = ["Admit", "Gate", "Held"]

Decoded = list[dict[str, AttributeValue]]


class Admit(Protocol):
    """How messages get into the log of their pubend."""

    def __call__(
        self, source: Source, first: int, bodies: list[bytes], decoded: Decoded, *, may_jump: bool, now_ms: int
    ) -> int:
        """Gives messages their ticks; returns the commit that makes them durable, 0 if they already are."""


@dataclass(slots=True)
class Held:
    """The part of a publisher's batch that is still waiting."""

    batch: Batch
    source: Source
    first: int
    bodies: list[bytes]
    decoded: Decoded
    may_jump: bool = False
    """Whether its first number need not be the next one of its publisher."""


class Gate:
    """The messages that wait for the rate of their pubends."""

    def __init__(
        self, controls: Mapping[str, PubendControl], admit: Admit, waits: Callable[[str], bool] = lambda _: False
    ) -> None:
        """``waits`` tells whether a pubend has not begun yet: until it does, nothing may pass."""
        self._controls, self._admit, self._waits = controls, admit, waits
        self._waiting: dict[str, deque[Held]] = {}

    def offer(self, held: Held, *, now_ms: int) -> int | None:
        """Admits a batch after those that wait; returns its commit, or None if some of it has to wait."""
        pubend = held.source.pubend
        waiting = self._waiting.get(pubend)
        if not waiting:
            commit = self._let_in(held, now_ms)
            if not held.bodies:
                return commit
            waiting = self._waiting.setdefault(pubend, deque())
        elif not self._waits(pubend):
            self._controls[pubend].pdcc.on_held_back()
        waiting.append(held)
        return None

    def release(self, *, now_ms: int) -> list[tuple[Held, int]]:
        """Admits what the rates allow by now; returns the batches that are complete, with their commits."""
        released = []
        for pubend in list(self._waiting):
            waiting = self._waiting[pubend]
            while waiting:
                commit = self._let_in(waiting[0], now_ms)
                if waiting[0].bodies:
                    break
                released.append((waiting.popleft(), commit))
            if not waiting:
                del self._waiting[pubend]
        return released

    def leave(self, source: Source) -> None:
        """Drops the backlog of a publisher that is gone: it resends what was not acknowledged when it comes back."""
        waiting = self._waiting.get(source.pubend)
        if waiting is not None:
            self._waiting[source.pubend] = kept = deque(each for each in waiting if each.source is not source)
            if not kept:
                del self._waiting[source.pubend]

    def next_deadline(self, *, now_ms: int) -> int | None:
        """When the next message may be admitted."""
        begun = [each for each in self._waiting if not self._waits(each)]
        return min([self._controls[each].next_ms(now_ms=now_ms) for each in begun], default=None)

    def remind(self) -> None:
        """Tells rate control which pubends have a backlog: at a low rate, no new message may say so for long."""
        for pubend in self._waiting:
            if not self._waits(pubend):
                self._controls[pubend].pdcc.on_held_back()

    @property
    def is_open(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def waiting(self) -> dict[str, dict[Source, None]]:
        """The sources of messages that wait, by pubend."""
        return {pubend: {each.source: None for each in waiting} for pubend, waiting in self._waiting.items()}

    def _let_in(self, held: Held, now_ms: int) -> int:
        """Gives ticks to as much of a batch as the rate allows; returns the commit of that part."""
        if self._waits(held.source.pubend):
            return 0
        count = self._controls[held.source.pubend].admit(len(held.bodies), now_ms=now_ms)
        if not count:
            return 0
        bodies, decoded = held.bodies[:count], held.decoded[:count]
        commit = self._admit(held.source, held.first, bodies, decoded, may_jump=held.may_jump, now_ms=now_ms)
        held.may_jump = False
        held.first += count
        held.bodies, held.decoded = held.bodies[count:], held.decoded[count:]
        return commit
