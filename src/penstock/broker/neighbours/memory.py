"""Remembers what this broker has heard of pubends elsewhere, and tells a broker that has lost some of it.

The store of a pubend may be an older copy when a life of its broker begins: an embedded store that was restored, or a
database whose standby lacked commits. That broker alone cannot know. So its link state says what it knows of former
lives, and every other broker compares that with its own memory, as it was when it first heard of the new life. While
the broker asks, everybody answers, again and again; later only those that know better, as often as the paths change.

Only what a pubend announces counts: that is durable before it is announced. So nobody who remembers contradicts a
store that is whole. The memory lasts as long as the broker's own life.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from penstock.broker.connections import Connections
from penstock.broker.due import Due
from penstock.broker.neighbours.topology import PUBENDS_MAX
from penstock.broker.transit.routing import Router
from penstock.protocol.frames import LinkState, Marks, Remembered

__all__ = ["Memory"]

_REPEAT_MS: Final = 300
"""How often a broker that asks is answered: answers may get lost while paths change."""
_HOPS_MAX: Final = 10_000


@dataclass(slots=True)
class _Mark:
    """The highest ticks heard of a pubend."""

    heard: int = 0
    """The last tick of which it is known what it was."""
    message: int = 0
    """The last tick with a message."""


@dataclass(slots=True)
class _Life:
    """The present life of another broker."""

    state: LinkState
    """Its latest link state."""
    former: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What was heard of its pubends before this life was heard of."""

    def better(self) -> Marks:
        """What was heard and this life does not know of."""
        found = [(pubend, self.former.get(pubend, (0, 0)), (lease, last)) for pubend, lease, last in self.state.known]
        return tuple((pubend, *mark) for pubend, mark, known in found if mark[0] > known[0] or mark[1] > known[1])


class Memory:
    """What one broker remembers of the pubends of others."""

    def __init__(self, name: str, connections: Connections, router: Router) -> None:
        self._name = name
        self._connections, self._router = connections, router
        self._marks: dict[str, _Mark] = {}
        self._lives: dict[str, _Life] = {}
        self._repeat_ms: int | None = None
        self.due = Due(self.next_deadline)

    def note(self, pubend: str, heard: int, message: int) -> None:
        """Notes that a pubend has announced everything up to a tick, and a message at another, 0 for none."""
        mark = self._marks.get(pubend)
        if mark is None:
            if len(self._marks) >= PUBENDS_MAX:
                del self._marks[next(iter(self._marks))]
            mark = self._marks[pubend] = _Mark()
        # Compared, not max(): this is done for every knowledge message.
        mark.heard = max(mark.heard, heard)
        mark.message = max(mark.message, message)

    def learn(self, state: LinkState) -> None:
        """Hears a new link state of another broker, perhaps of a new life; call ``look`` at the end of the turn."""
        life = self._lives.get(state.origin)
        if life is not None and life.state.life == state.life:
            life.state = state
            return
        marks = {pubend: self._marks[pubend] for pubend, _, _ in state.known if pubend in self._marks}
        former = {pubend: (mark.heard, mark.message) for pubend, mark in marks.items()}
        self._lives[state.origin] = _Life(state, former)

    def forget(self, origin: str) -> None:
        """Forgets the life of a broker that was removed from the overlay."""
        self._lives.pop(origin, None)

    # --- telling

    def look(self, *, now_ms: int) -> None:
        """Answers those that ask, and tells those that should know better; called after changes of the overlay."""
        for life in self._lives.values():
            self._tell(life, now_ms)

    def next_deadline(self) -> int | None:
        """When to answer again."""
        return self._repeat_ms

    def on_deadline(self, *, now_ms: int) -> None:
        """Answers those that still ask once more."""
        if self._repeat_ms is None or now_ms < self._repeat_ms:
            return
        self._repeat_ms = None
        for life in self._lives.values():
            if life.state.is_asking:
                self._tell(life, now_ms)

    def _tell(self, life: _Life, now_ms: int) -> None:
        marks = life.better()
        if not marks and not life.state.is_asking:
            return
        is_sent = self._post(Remembered(life.state.origin, self._name, life.state.life, marks))
        if is_sent and life.state.is_asking and self._repeat_ms is None:
            self._repeat_ms = now_ms + _REPEAT_MS
            self.due.by(self._repeat_ms)

    def pass_on(self, frame: Remembered) -> None:
        """Forwards what another broker remembers."""
        if frame.hops < _HOPS_MAX:
            self._post(msgspec.structs.replace(frame, hops=frame.hops + 1))

    def _post(self, frame: Remembered) -> bool:
        """Sends a frame one hop towards its broker; returns False if there is no path to it."""
        # Every broker has a system stream; in its tree, the parent leads to that broker.
        parent = self._connections.links.get(self._router.place_in(f"${frame.to}").parent or "")
        if parent is not None:
            self._connections.say(parent, frame)
        return parent is not None
