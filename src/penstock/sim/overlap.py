"""What comes to a simulated client over two connections while it moves, put together as the client library does.

By positions where there are some, by the ticks of what has come elsewhere. A connection that repeats something of a
guaranteed pubend by itself is not helped: that is recorded, for the checkers to find.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.model.message_id import MESSAGE_ID_BYTES
from penstock.protocol.frames import Deliver, is_guaranteed_number

if TYPE_CHECKING:
    from penstock.sim.client import SimClient

__all__ = ["Key", "Overlap"]

_TRAIL_US: Final = 5_000_000
"""So much longer a message may take to the new broker than to the old one, and is still known to have come."""

Key = tuple[int, str]
"""A subscription and a pubend."""


class Overlap:
    """The time in which a client has two connections, and the last repetitions after it."""

    def __init__(self, client: SimClient, former: Overlap | None = None) -> None:
        """Begin where the one before is not over: its new connection is the old one now, and may still repeat."""
        self._client = client
        self._streams: dict[Key, None] = {}
        self._held: deque[tuple[int, str, Deliver]] = deque()
        self.seen: dict[tuple[int, bytes], None] = {}
        positions = client.subscribing.positions
        guaranteed = [(number, each) for number in client.wanted for each in client.subscriptions[number].positions]
        self._old_last = {key: positions.heard(*key) - 1 for key in guaranteed}
        self._rest = former.rest() if former is not None else {}
        self._old_last |= self._rest
        self._before, self._before_until_us = former.trail() if former is not None else ({}, 0)
        self._new_last: dict[Key, int] = {}
        self._floors: dict[Key, int] | None = None
        """When the old connection is gone: below these it had brought everything."""
        self._stays: dict[Key, int] | None = None
        """When the client stays with the old connection: below these the new one had brought everything."""
        self._ended_us = 0
        self.is_final = False
        """Whether the new connection is the client's own."""

    @property
    def is_over(self) -> bool:
        """Whether nothing can come any more that has come before."""
        if self._stays is not None:
            return not self._stays and self._client.clock.now_us >= self._before_until_us
        return self._floors == {} and self._client.clock.now_us >= self._ended_us + _TRAIL_US

    def rest(self) -> dict[Key, int]:
        """The streams that the client's own connection may still repeat, each with the last tick it has brought."""
        if self._stays is not None:
            return {key: self._old_last.get(key, -1) for key in self._stays}
        return {key: self._new_last.get(key, -1) for key in self._floors or ()}

    def trail(self) -> tuple[dict[tuple[int, bytes], None], int]:
        """The messages without positions that the client's own connection may still repeat, and until when."""
        if self._stays is not None:
            return self._before, self._before_until_us
        return self.seen, self._ended_us + _TRAIL_US

    def opens(self, key: Key) -> None:
        """The new connection brings a stream from where it is."""
        if key not in self._streams:
            self._streams[key] = None
            waiting = [each for each in self._held if each[:2] == key and is_guaranteed_number(each[2].pubend)]
            self._held = deque(each for each in self._held if each not in waiting)
            for number, pubend, frame in waiting:
                self.deliver_new(number, pubend, frame)

    def covers(self, key: Key) -> bool:
        """Whether it does."""
        return key in self._streams

    def deliver_old(self, number: int, pubend: str, frame: Deliver) -> None:
        """A message over the old connection."""
        key = (number, pubend)
        if self._is_position(key, frame):
            last, self._old_last[key] = self._old_last.get(key, -1), frame.tick
            if last < frame.tick < (self._heard(key) if self._stays is None else self._stays.get(key, 0)):
                return
            if self._stays is not None:
                self._stays.pop(key, None)
        elif not is_guaranteed_number(frame.pubend):
            if self._is_behind(key, frame):
                return
        elif (number, frame.body[:MESSAGE_ID_BYTES]) in self._before:
            return
        else:
            self.seen[number, frame.body[:MESSAGE_ID_BYTES]] = None
        self._client.record(number, pubend, frame)

    def deliver_new(self, number: int, pubend: str, frame: Deliver) -> None:
        """A message over the new connection."""
        key = (number, pubend)
        if self.is_final and self._is_position(key, frame):
            self.opens(key)
        is_stream = key in self._streams and is_guaranteed_number(frame.pubend)
        if not is_stream and self._floors is None:
            self._held.append((number, pubend, frame))
            return
        if not is_guaranteed_number(frame.pubend):
            if not self._is_behind(key, frame):
                self._client.record(number, pubend, frame)
            return
        if self._floors is not None and (number, frame.body[:MESSAGE_ID_BYTES]) in self.seen:
            return
        last, self._new_last[key] = self._new_last.get(key, -1), frame.tick
        floor = self._heard(key) if self._floors is None else self._floors.get(key, 0)
        if not last < frame.tick < floor:
            if self._floors is not None:
                self._floors.pop(key, None)
            self._client.record(number, pubend, frame)

    def stay(self) -> None:
        """There will be no new connection: the old one still brings what the new one has brought, or one before it."""
        self._stays = {key: self._heard(key) for key in {**self._rest, **self._streams}}
        self._held.clear()

    def lose(self) -> None:
        """The new connection, which is the client's own, is gone: what it has brought and nobody got comes again."""
        for key in dict.fromkeys(each[:2] for each in self._held):
            if self._has_position(key):
                self.opens(key)
        self._held.clear()

    def finish(self) -> None:
        """The old connection has brought its last."""
        if self._floors is not None:
            return
        self._ended_us = self._client.clock.now_us
        self._floors = {key: self._heard(key) for key in self._streams}
        for number, pubend, frame in self._held:
            has_come = (number, frame.body[:MESSAGE_ID_BYTES]) in self.seen
            if not is_guaranteed_number(frame.pubend):
                has_come = self._is_behind((number, pubend), frame)
            if not has_come and number in self._client.wanted:
                self._client.record(number, pubend, frame)
        self._held.clear()

    def _is_behind(self, key: Key, frame: Deliver) -> bool:
        """Whether a message of a pubend without positions has come, or would come out of order."""
        return frame.tick < self._client.subscribing.positions.loose.get(key, 0)

    def _is_position(self, key: Key, frame: Deliver) -> bool:
        """Whether the tick of a message is a position of the subscription."""
        return is_guaranteed_number(frame.pubend) and self._has_position(key)

    def _has_position(self, key: Key) -> bool:
        return key[1] in self._client.subscriptions[key[0]].positions

    def _heard(self, key: Key) -> int:
        return self._client.subscribing.positions.heard(*key)
