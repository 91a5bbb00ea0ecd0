"""Holds messages back until their publisher has quota in their group, each publisher on its own ([Ajil] section 4.2).

The paper lets senders drop or delay; on the overlay they are delayed, and nothing is lost. A publisher's messages to a
guaranteed pubend keep their order, since the pubend deduplicates by their numbers: behind one that waits, all later
ones of the same publisher to the same pubend wait. To a best-effort pubend the groups of a publisher do not wait for
each other. Other publishers never wait. The backlog is bounded by the credit of its publisher, who is told why. The
gate follows the turnstile: the lower of both rates counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.broker.mechanisms.limiter import Limiter
from penstock.broker.pubend.gate import Held
from penstock.broker.sources import Batch, Source
from penstock.model.values import Attributes

__all__ = ["Turnstile"]

_Queue: TypeAlias = tuple[Source, str | None]
"""A source, and a group if groups do not wait for each other."""


@dataclass(slots=True)
class _Whole:
    """A batch as it was received; it is settled when the last of its pieces has passed."""

    batch: Batch
    pieces: int


class Turnstile:
    """The messages that wait for quotas."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._waiting: dict[_Queue, deque[tuple[Held, _Whole]]] = {}
        self._sources: dict[str, dict[Source, None]] = {}
        """The sources of each sender that have offered anything."""

    def offer(self, held: Held, *, keeps_order: bool = True, now_ms: int) -> list[Held]:
        """Takes a publisher's batch; returns what may pass now, and queues the rest."""
        sender = held.source.sender
        self._sources.setdefault(sender, {})[held.source] = None
        self._limiter.want(sender, held.bodies, held.decoded)
        pieces: Mapping[str | None, Held] = {None: held} if keeps_order else self._by_group(held)
        whole = _Whole(held.batch, len(pieces))
        passed: list[Held] = []
        for group, piece in pieces.items():
            queue = (held.source, group)
            waiting = self._waiting.get(queue)
            if waiting is None:
                passed += self._pass(piece, whole, now_ms)
            if piece.bodies:
                self._limiter.hold(sender, piece.decoded)
                self._waiting.setdefault(queue, deque()).append((piece, whole))
        return passed

    def release(self, *, now_ms: int) -> list[Held]:
        """Returns what may pass by now."""
        passed: list[Held] = []
        for queue in list(self._waiting):
            waiting = self._waiting[queue]
            while waiting:
                passed += self._pass(*waiting[0], now_ms)
                if waiting[0][0].bodies:
                    break
                waiting.popleft()
            if not waiting:
                del self._waiting[queue]
        return passed

    def leave(self, source: Source) -> None:
        """Drops the backlog of a publisher that is gone: it resends what was not acknowledged when it comes back."""
        others = self._sources.get(source.sender)
        if others is None or source not in others:
            return
        self._waiting = {queue: waiting for queue, waiting in self._waiting.items() if queue[0] is not source}
        del others[source]
        if not others:
            del self._sources[source.sender]
            self._limiter.leave(source.sender)

    @property
    def is_open(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def reasons(self) -> dict[Source, tuple[str, float]]:
        """By source that waits: the reason, and how many bytes per second it may send."""
        # Of several reasons the first one wins: its messages have waited longest.
        return {
            queue[0]: self._reason(queue, waiting[0][0].decoded[0])
            for queue, waiting in reversed(self._waiting.items())
        }

    def _reason(self, queue: _Queue, first: Attributes) -> tuple[str, float]:
        source, group = queue
        reason, rate_s = self._limiter.reason(source.sender, first)
        if reason and group is None:
            # Explains why messages of groups that are not slowed down wait, too.
            reason += f"; its later messages to pubend {source.pubend!r} also wait, to keep their order"
        return reason, rate_s

    def next_deadline(self, *, now_ms: int) -> int | None:
        """When the next message may pass."""
        return self._limiter.next_ms(now_ms=now_ms) if self._waiting else None

    def _by_group(self, held: Held) -> dict[str | None, Held]:
        """Splits a batch into pieces by group; numbers do not matter where nobody deduplicates."""
        pieces: dict[str | None, Held] = {}
        for body, attributes in zip(held.bodies, held.decoded, strict=True):
            group = self._limiter.group_of(attributes)
            if group not in pieces:
                pieces[group] = Held(held.batch, held.source, held.first, [], [])
            pieces[group].bodies.append(body)
            pieces[group].decoded.append(attributes)
        return pieces

    def _pass(self, held: Held, whole: _Whole, now_ms: int) -> list[Held]:
        """Returns as much of a piece as may pass; the batch itself is settled with the last of all its pieces."""
        limiter, sender = self._limiter, held.source.sender
        # A limit that was lifted meanwhile lets everything through.
        count = len(held.bodies)
        if limiter.is_active:
            count = limiter.admit(sender, held.bodies, held.decoded, now_ms=now_ms)
        if not count:
            return []
        if count == len(held.bodies):
            whole.pieces -= 1
        part = Held(
            whole.batch if whole.pieces == 0 else Batch(held.first + count - 1, 0),
            held.source,
            held.first,
            held.bodies[:count],
            held.decoded[:count],
            held.may_jump,
        )
        held.may_jump = False
        held.first += count
        held.bodies, held.decoded = held.bodies[count:], held.decoded[count:]
        return [part]
