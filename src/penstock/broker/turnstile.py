"""Where messages wait for the quota of their publisher in their group, each publisher for itself ([Ajil] section 4.2).

The paper lets senders drop or delay; on the overlay they are delayed, and nothing is lost. A publisher's messages keep
their order: behind one that waits, all of the same publisher wait; other publishers do not. What waits is bounded by
the credit of its publisher, who is told why. Behind the turnstile is the gate: the lower of both rates counts.
"""

from __future__ import annotations

from collections import deque

from penstock.broker.gate import Held
from penstock.broker.limiter import Limiter
from penstock.broker.peers import Batch

__all__ = ["Turnstile"]


class Turnstile:
    """The messages that wait for quotas."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._waiting: dict[int, deque[Held]] = {}
        self._senders: dict[int, str] = {}

    def offer(self, held: Held, sender: str, *, now_ms: int) -> list[Held]:
        """A publisher's batch: what of it may go on now; the rest waits."""
        self._senders[held.connection] = sender
        self._limiter.want(sender, held.bodies, held.decoded)
        waiting = self._waiting.get(held.connection)
        if waiting:
            waiting.append(held)
            return []
        passed = self._pass(held, now_ms)
        if held.bodies:
            self._waiting[held.connection] = deque([held])
        return passed

    def release(self, *, now_ms: int) -> list[Held]:
        """What may go on by now."""
        passed: list[Held] = []
        for connection in list(self._waiting):
            waiting = self._waiting[connection]
            while waiting:
                passed += self._pass(waiting[0], now_ms)
                if waiting[0].bodies:
                    break
                waiting.popleft()
            if not waiting:
                del self._waiting[connection]
        return passed

    def leave(self, connection: int) -> None:
        """A publisher is gone: what it has sent and was never acknowledged, it sends again when it comes back."""
        self._waiting.pop(connection, None)
        sender = self._senders.pop(connection, None)
        if sender is not None:
            self._limiter.leave(sender)

    @property
    def is_open(self) -> bool:
        """Whether nobody waits."""
        return not self._waiting

    def reasons(self) -> dict[int, tuple[str, float]]:
        """Who waits, why, and how many bytes per second it may send."""
        return {
            connection: self._limiter.reason(self._senders[connection], waiting[0].decoded[0])
            for connection, waiting in self._waiting.items()
        }

    def next_deadline(self, *, now_ms: int) -> int | None:
        """When the next message may go on."""
        return self._limiter.next_ms(now_ms=now_ms) if self._waiting else None

    def _pass(self, held: Held, now_ms: int) -> list[Held]:
        """As much of a batch as may go on; the batch itself is settled with its last part."""
        limiter, sender = self._limiter, self._senders[held.connection]
        # A limit that was lifted meanwhile lets everything through.
        count = len(held.bodies)
        if limiter.is_active:
            count = limiter.admit(sender, held.bodies, held.decoded, now_ms=now_ms)
        if not count:
            return []
        is_last = count == len(held.bodies)
        part = Held(
            held.batch if is_last else Batch(held.first + count - 1, 0),
            held.connection,
            held.publisher,
            held.pubend,
            held.first,
            held.bodies[:count],
            held.decoded[:count],
        )
        held.first += count
        held.bodies, held.decoded = held.bodies[count:], held.decoded[count:]
        return [part]
