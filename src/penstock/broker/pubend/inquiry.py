"""Asks all brokers in reach what they have heard of this broker's pubends, before a new life of them begins.

A store that is an older copy does not know what was committed after it was taken: messages that were acknowledged, and
ticks that were promised to be silent. Others may have heard of them. Until everybody in reach has answered, or the time
is over, the pubends wait: they take no messages, and say nothing of the ticks behind their last one. If somebody knows
better, the store has lost commits. Then everything from the last message to the beginning of the new life counts as
lost, and is told as that: nobody can know what else was in it.

An answer that comes when a pubend has begun is too late: the ticks may have been told as silence. It is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.broker.pubend.log import PubendLog
from penstock.broker.rooms import Rooms
from penstock.model.tick import Tick, tick_ms
from penstock.protocol.frames import LinkState, Marks, Remembered

__all__ = ["Inquiry", "Memento"]

_AHEAD_MS_MAX: Final = 366 * 24 * 3_600_000
"""How far ahead of this broker's clock a stream may have been."""


@dataclass(slots=True, frozen=True)
class Memento:
    """What is remembered of a pubend beyond what its store knows."""

    tick: int
    """The last tick that anything was heard of."""
    broker: str
    """Who remembers it."""


class Inquiry:
    """What one broker asks when its life begins."""

    def __init__(self, rooms: Rooms, logs: Mapping[str, PubendLog]) -> None:
        self._settings, self._topology = rooms.settings, rooms.topology
        self._connections = rooms.connections
        self._known = {name: (log.former, log.has) for name, log in logs.items()}
        """By pubend, the ticks up to which this life knows of promises, and of messages."""
        self._mementos: dict[str, Memento] = {}
        self._answered: dict[str, None] = {}
        self.end_ms: int | None = None
        """When it ends at the latest; None if it is not under way."""
        self.implausible = 0
        """Ticks that were remembered and lie too far in the future to be believed."""
        if self._known:
            self._topology.tell_known(self._marks(), is_asking=self.is_needed)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to ask, and anybody who could answer."""
        return bool(self._known and self._settings.neighbours and self._settings.inquiry_ms)

    @property
    def is_open(self) -> bool:
        """Whether answers are awaited."""
        return self.end_ms is not None

    def begin(self, *, now_ms: int) -> None:
        """Begins to wait for answers."""
        self.end_ms = now_ms + self._settings.inquiry_ms

    def on_remembered(self, frame: Remembered, *, now_ms: int) -> dict[str, Memento]:
        """Takes an answer; returns what has come too late of it, by pubend."""
        if frame.life != self._topology.life:
            return {}
        self._answered[frame.host] = None
        better = self._better(frame, now_ms)
        if not self.is_open:
            return better
        for pubend, memento in better.items():
            if pubend not in self._mementos or memento.tick > self._mementos[pubend].tick:
                self._mementos[pubend] = memento
        return {}

    def _better(self, frame: Remembered, now_ms: int) -> dict[str, Memento]:
        """What a broker remembers that this one does not know."""
        better: dict[str, Memento] = {}
        for pubend, heard, message in frame.marks:
            known = self._known.get(pubend)
            tick = max(heard, message)
            if known is None or (heard <= known[0] and message <= known[1]):
                continue
            if tick_ms(Tick(tick)) > now_ms + _AHEAD_MS_MAX:
                self.implausible += 1
                continue
            better[pubend] = Memento(tick, frame.host)
        return better

    def is_settled(self, *, now_ms: int) -> bool:
        """Whether everybody in reach has answered, or the time is over."""
        if self.end_ms is None or now_ms >= self.end_ms:
            return True
        # A neighbour's link states come before its answer: by then it is known who lies behind it.
        expected = (*self._connections.links, *self._in_reach())
        return self._is_linked() and all(name in self._answered for name in expected)

    def _is_linked(self) -> bool:
        """Whether nobody else is expected to come into reach at once."""
        links, homes = self._connections.links, self._settings.homes
        if self._settings.name in homes:
            # A home has a link to the candidate that runs it.
            return bool(links)
        return all(name in links for name in self._settings.neighbours if name not in homes)

    def _in_reach(self) -> list[str]:
        """All brokers to which there is a path, without this one."""
        graph, found = self._topology.graph(), {self._settings.name: None}
        waiting = [self._settings.name]
        for name in waiting:
            fresh = [other for other in graph[name] if other not in found]
            found.update(dict.fromkeys(fresh))
            waiting += fresh
        return waiting[1:]

    def end(self) -> dict[str, Memento]:
        """Ends the wait; returns what others remember and the stores do not know, by pubend."""
        self.end_ms = None
        mementos, self._mementos = self._mementos, {}
        return mementos

    def know(self, pubend: str, tick: int) -> None:
        """Everything up to a tick is known, or counts as lost: nobody needs to report it any more."""
        lease, last = self._known[pubend]
        self._known[pubend] = max(lease, tick), max(last, tick)

    def told(self) -> LinkState:
        """Says what is known by now; returns what must be flooded."""
        return self._topology.tell_known(self._marks(), is_asking=self.is_open)

    def _marks(self) -> Marks:
        return tuple((pubend, lease, last) for pubend, (lease, last) in self._known.items())
