"""Takes what other brokers carry to this broker's pubends for their publishers, and passes on what is for others.

A visitor is a publisher at another broker. All that is kept of it can be lost at any time: whoever carries for it is
then told that something is missing, and begins a new round with all that is not settled.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from penstock.broker.clients.intake import Intake
from penstock.broker.neighbours.ways import Ways
from penstock.broker.rooms import Rooms
from penstock.broker.sources import Source
from penstock.model.body import BODY_BYTES_MIN
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Carried, Carry, carried_credit

__all__ = ["Visitors"]

_VISITORS_MAX: Final = 20_000
"""Beyond this, the visitor that was silent longest is forgotten."""
_BYTES_MAX: Final = 64 * 1024 * 1024
"""How much of all visitors may wait here to be settled; each pubend has an equal share of it.

Visitors of which nothing waits may use as much again, so that those that came first do not keep all others out.
"""
_COUNT_MS: Final = 100


class Visitors:
    """The visitors of one broker."""

    def __init__(self, rooms: Rooms, intake: Intake) -> None:
        self._settings = rooms.settings
        self._rooms, self._intake = rooms, intake
        self._ways = Ways(rooms, rooms.pubends.names)
        self._visitors: dict[tuple[str, str, bytes], Source] = {}
        """By pubend, door and publisher, the one heard last at the end."""
        self._waiting: Counter[str] = Counter()
        """How many bytes wait, by pubend."""
        self._counted_ms = 0
        self.counts = {"carry_passed": 0, "carry_dropped": 0, "carry_broken": 0, "carry_overtaken": 0}

    def on_carry(self, frame: Carry, neighbour: str, *, now_ms: int) -> None:
        """Takes a visitor's messages or question from a neighbour, or passes it on towards the pubend."""
        if frame.bodies and min(map(len, frame.bodies)) < BODY_BYTES_MIN:
            raise ProtocolError(f"broker {frame.host} carries a message to {frame.pubend} that is too small to be one")
        if self._rooms.tracker.is_on and frame.bodies:
            self._rooms.tracker.note_routed(frame.bodies, neighbour)
        if frame.pubend not in self._settings.pubends:
            self._pass_on(frame)
            return
        key = (frame.pubend, frame.host, frame.publisher)
        visitor = self._visitors.pop(key, None)
        if visitor is None or frame.round > visitor.round:
            if visitor is not None:
                self._intake.leave_all([visitor])
            visitor = self._begin(frame)
        self._visitors[key] = visitor
        if frame.round < visitor.round:
            self.counts["carry_overtaken"] += 1
            self._say(visitor, is_late=True)
            return
        self._hear(visitor, frame, now_ms)
        self._forget_some()

    def _pass_on(self, frame: Carry) -> None:
        parent = self._ways.parent(frame.pubend)
        if parent is not None and self._rooms.connections.carry(parent, frame):
            self.counts["carry_passed"] += len(frame.bodies)
        else:
            # The door notices sooner or later, and its publisher has it all.
            self.counts["carry_dropped"] += len(frame.bodies)

    def _begin(self, frame: Carry) -> Source:
        return Source(
            frame.pubend,
            frame.publisher,
            f"{frame.client}/{frame.publisher.hex()[:8]}",
            host=frame.host,
            credit_bytes=carried_credit(self._settings.credit_bytes),
            received=frame.after if frame.is_first else -1,
            settled=frame.after if frame.is_first else 0,
            round=frame.round,
            # Without its beginning, a round is of no use.
            is_rewinding=not frame.is_first,
        )

    def _hear(self, visitor: Source, frame: Carry, now_ms: int) -> None:
        if not visitor.is_rewinding and frame.after != visitor.received:
            if frame.after < visitor.received:
                self.counts["carry_overtaken"] += len(frame.bodies)
                return
            if frame.pubend in self._settings.best_effort:
                visitor.received = frame.after
            else:
                self._break(visitor)
        reason = ""
        if not visitor.is_rewinding and frame.bodies and not self._has_room(visitor, frame, now_ms):
            reason = f"broker {self._settings.name} has no room for more that waits for pubend {frame.pubend}"
            self._break(visitor)
        if visitor.is_rewinding:
            self._say(visitor, reason, is_broken=True)
        elif frame.bodies:
            self._intake.take_carried(visitor, frame.first, frame.bodies, now_ms=now_ms)
            visitor.asks = visitor.asks or (frame.asks and bool(visitor.outstanding))
        else:
            self._intake.ask_carried(visitor, is_waited_for=frame.asks)

    def _break(self, visitor: Source) -> None:
        """Something of a round is missing: nothing more of it can be taken."""
        self.counts["carry_broken"] += 1
        visitor.is_rewinding = True

    def _say(self, visitor: Source, reason: str = "", *, is_broken: bool = False, is_late: bool = False) -> None:
        who = (visitor.pubend, visitor.host, visitor.publisher)
        answer = Carried(*who, visitor.round, visitor.settled, reason, is_broken=is_broken, is_late=is_late)
        self._ways.down(visitor.pubend, visitor.host, answer)

    def _has_room(self, visitor: Source, frame: Carry, now_ms: int) -> bool:
        """Whether more may wait for a pubend; counted now and then, and too high in between."""
        if now_ms >= self._counted_ms + _COUNT_MS:
            self._counted_ms = now_ms
            self._waiting.clear()
            for each in self._visitors.values():
                self._waiting[each.pubend] += _waiting_bytes(each)
        share_bytes = _BYTES_MAX // len(self._settings.pubends)
        before_bytes = self._waiting[frame.pubend]
        has_room = before_bytes + frame.size <= share_bytes
        if not has_room and not _waiting_bytes(visitor):
            # Even a message that is larger than all that may wait has its turn.
            has_room = before_bytes < 2 * share_bytes
        if has_room:
            self._waiting[frame.pubend] += frame.size
        return has_room

    def _forget_some(self) -> None:
        while len(self._visitors) > _VISITORS_MAX:
            key = next(iter(self._visitors))
            self._intake.leave_all([self._visitors.pop(key)])

    def look(self) -> None:
        """Forgets visitors that cannot be reached any more, after a change of the overlay: they will send again."""
        gone = [key for key in self._visitors if self._rooms.router.place_in(key[0]).towards(key[1]) is None]
        for key in gone:
            self._intake.leave_all([self._visitors.pop(key)])


def _waiting_bytes(visitor: Source) -> int:
    # What is durable does not wait, though its credit may be withheld.
    return visitor.unpaid_bytes - visitor.withheld_bytes
