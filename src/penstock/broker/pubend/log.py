"""A guaranteed pubend at its own broker: ticks under a durable lease, repetitions recognised, silence promised.

[Gryphon] section 2; for ticks see `model.tick`. A message gets its tick when it comes in, and is
spoken of only when it is durable. Everything up to ``promised`` is known for good: what is not in the log is silence.
A restart begins above the lease of the former life, which may have promised anything up to there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.broker.due import Due
from penstock.broker.durable import Append, RecoveredPubend, Trim
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import Tick, tick_at
from penstock.model.values import AttributeValue
from penstock.streams.knowledge import Knowledge

__all__ = ["PubendLog"]

_SLEW: Final = 10
"""A stream that is ahead of the clock loses a tenth of the time that passes, until they agree."""
_PUBLISHERS_MAX: Final = 100_000
"""Publishers whose repetitions are recognised."""
_PARTS: Final = 64
"""Parts that the log of a former life counts as."""
_SIZE_STEP: Final = 64 * 1024
"""How finely the sizes of parts of the log are known."""


@dataclass(slots=True)
class _Pending:
    """Messages whose commit is on its way."""

    commit: int
    ticks: list[int]
    bodies: list[bytes]
    decoded: list[dict[str, AttributeValue]]


def _spread(found: RecoveredPubend) -> deque[tuple[int, int]]:
    """The size of a former life's log in parts, as if its bytes were spread evenly: only the sum is known."""
    if not found.size_bytes or found.last_tick is None:
        return deque()
    first = found.last_tick if found.first_tick is None else found.first_tick
    parts = min(_PARTS, found.size_bytes, found.last_tick - first + 1)
    step, rest = divmod(found.size_bytes, parts)
    lasts = [first + (found.last_tick - first + 1) * (part + 1) // parts - 1 for part in range(parts)]
    return deque((last, step + (part < rest)) for part, last in enumerate(lasts))


class PubendLog:
    """One pubend's ticks, lease, publishers and sizes; the messages themselves are in the shell's store."""

    def __init__(self, name: str, settings: BrokerSettings, recovered: RecoveredPubend | None = None) -> None:
        found = recovered or RecoveredPubend()
        self.name = name
        self._lease_ms = settings.lease_ms
        self._silence_ms = settings.silence_ms
        self.due = Due(self.next_deadline)
        """After so long without messages silence is spoken of."""
        self._lease = self._lease_asked = found.lease or 0
        self._leases: deque[tuple[int, int]] = deque()
        self._pending: deque[_Pending] = deque()
        self._sequences = dict(found.sequences)
        self._commit = 0
        self.promised: int = max(found.lease or 0, found.last_tick or 0, found.trimmed_below - 1, 0)
        """The last tick of which everything is known for good."""
        self.last_tick: int = self.promised
        """The last tick that was given out or promised to be silent."""
        self.trimmed_below = found.trimmed_below
        self.size_bytes = found.size_bytes
        self._sizes = _spread(found)
        self._ahead_ms: int | None = None
        self._slewed_ms = self._spoke_ms = 0
        self._told_until = found.last_tick or 0
        self._ends_in_silence = False
        self.mean_bytes = 256.0
        """The size of a message, as they are lately."""
        self.repeated = 0
        """Messages that were recognised as sent before."""

    def begin(self, *, now_ms: int) -> Trim | None:
        """A log that has never been begins now: what is asked of earlier ticks is not known, and no silence.

        It may be the log of a pubend that had another one before, which was lost.
        """
        if self.promised:
            return None
        self.last_tick = self.promised = self._told_until = tick_at(now_ms) - 1
        self.trimmed_below = self.promised + 1
        return Trim(self.name, Tick(self.trimmed_below))

    # --- messages come in

    def publish(
        self,
        publisher: bytes,
        first: int,
        bodies: list[bytes],
        decoded: list[dict[str, AttributeValue]],
        *,
        now_ms: int,
    ) -> Append | None:
        """What must be made durable for messages numbered on from first; None if all of them were sent before."""
        known = self._sequences.get(publisher, 0) if publisher else 0
        last = first + len(bodies) - 1
        if known >= first:
            old = min(known - first + 1, len(bodies))
            self.repeated += old
            bodies, decoded = bodies[old:], decoded[old:]
        if not bodies:
            return None
        if publisher:
            self._remember(publisher, last)
        # Not the very next tick: behind each batch there is one of silence, which can be said again.
        start = max(self.last_tick + 2, tick_at(self.stream_ms(now_ms)))
        ticks = list(range(start, start + len(bodies)))
        self.last_tick = ticks[-1]
        self._pending.append(_Pending(0, ticks, bodies, decoded))
        size = sum(map(len, bodies))
        self.mean_bytes += (size / len(bodies) - self.mean_bytes) / 8
        self._grow(size)
        messages = tuple(zip(map(Tick, ticks), bodies, strict=True))
        return Append(self.name, messages, self._next_lease(now_ms), {publisher: last} if publisher else {})

    def on_appended(self, change: Append, commit: int) -> None:
        """The append (or the renewed lease) will be in this commit."""
        self._commit = commit
        if change.messages:
            self._pending[-1].commit = commit
        if change.lease is not None:
            self._leases.append((commit, change.lease))

    @property
    def last_commit(self) -> int:
        """The commit with which everything taken in so far is durable."""
        return self._commit

    def on_committed(self, number: int, *, now_ms: int) -> Knowledge | None:
        """Commits are durable; answers with what can be said now, if anything."""
        while self._leases and self._leases[0][0] <= number:
            self._lease = self._leases.popleft()[1]
        ticks: list[int] = []
        bodies: list[bytes] = []
        decoded: list[dict[str, AttributeValue]] = []
        while self._pending and self._pending[0].commit <= number:
            done = self._pending.popleft()
            ticks += done.ticks
            bodies += done.bodies
            decoded += done.decoded
        return self._say(ticks[-1], ticks, bodies, decoded, now_ms) if ticks else None

    # --- nothing comes in

    def silence(self, *, now_ms: int) -> Knowledge | None:
        """The silence up to now, if it is time to speak of it."""
        if now_ms < self._spoke_ms + self._silence_ms:
            return None
        until = min(tick_at(self.stream_ms(now_ms)) - 1, self._lease)
        if self._pending:
            until = min(until, self._pending[0].ticks[0] - 1)
        if until <= self.promised and self._told_until >= self.promised:
            self._spoke_ms = now_ms
            # Messages or the lease wait for the disk, maybe for long. Whoever missed the last word must hear that there
            # was one: a full log is trimmed only when everybody has had what is in it.
            return Knowledge(self.name, self.promised, self.promised) if self._ends_in_silence else None
        return self._say(max(until, self.promised), (), (), [], now_ms)

    def renewal(self, *, now_ms: int) -> Append | None:
        """A longer lease, if the present one ends soon."""
        lease = self._next_lease(now_ms)
        return None if lease is None else Append(self.name, lease=lease)

    def next_deadline(self) -> int:
        """When to speak of silence."""
        return self._spoke_ms + self._silence_ms

    def speak_every(self, silence_ms: int) -> None:
        """Silence is spoken of when it has lasted for so long."""
        self._silence_ms = silence_ms
        self.due.by(self.next_deadline())

    def stream_ms(self, now_ms: int) -> int:
        """The stream's own time: the clock's, or ahead of it after the clock was set back."""
        if self._ahead_ms is None:
            self._ahead_ms = max(0, (self.last_tick >> 16) + 1 - now_ms)
            self._slewed_ms = now_ms
        elif self._ahead_ms and now_ms >= self._slewed_ms + _SLEW:
            self._ahead_ms = max(0, self._ahead_ms - (now_ms - self._slewed_ms) // _SLEW)
            self._slewed_ms = now_ms
        return now_ms + self._ahead_ms

    # --- the size of the log

    def trim(self, below_tick: int) -> None:
        """What is older is gone."""
        self.trimmed_below = max(self.trimmed_below, below_tick)
        while self._sizes and self._sizes[0][0] < below_tick:
            self.size_bytes -= self._sizes.popleft()[1]

    def tick_keeping(self, bytes_kept: int) -> int:
        """The tick below which the log can be trimmed so that at least so many bytes stay."""
        surplus, below = self.size_bytes - bytes_kept, 0
        for last, size in self._sizes:
            surplus -= size
            if surplus < 0:
                break
            below = last + 1
        return below

    def check_invariants(self) -> None:
        """Fails if the pubend promised what it may not."""
        assert self.promised <= self.last_tick
        assert self._lease <= self._lease_asked
        assert self.last_tick <= max(self._lease_asked, self.promised)
        assert all(each.ticks[0] > self.promised for each in self._pending)
        assert self.size_bytes == sum(size for _, size in self._sizes)

    def _say(
        self,
        last: int,
        ticks: Sequence[int],
        bodies: Sequence[bytes],
        decoded: list[dict[str, AttributeValue]],
        now_ms: int,
    ) -> Knowledge:
        # Also what the former life promised is said again, up to the last message: nobody knows who heard it.
        first = min(self._told_until, self.promised) + 1
        spoken = Knowledge(self.name, first, last, ticks, bodies, decoded=decoded)
        self.promised = self._told_until = last
        self._ends_in_silence = not ticks or ticks[-1] < last
        self.last_tick = max(self.last_tick, last)
        self._spoke_ms = now_ms
        return spoken

    def _remember(self, publisher: bytes, sequence: int) -> None:
        # The last to publish is the last to be forgotten.
        self._sequences.pop(publisher, None)
        self._sequences[publisher] = sequence
        if len(self._sequences) > _PUBLISHERS_MAX:
            del self._sequences[next(iter(self._sequences))]

    def _next_lease(self, now_ms: int) -> Tick | None:
        reach_ms = max(self.stream_ms(now_ms), self.last_tick >> 16)
        if self._lease_asked >= tick_at(reach_ms + self._lease_ms // 2):
            return None
        lease = tick_at(reach_ms + self._lease_ms)
        self._lease_asked = lease
        return lease

    def _grow(self, size: int) -> None:
        self.size_bytes += size
        if self._sizes and self._sizes[-1][1] + size <= _SIZE_STEP:
            size += self._sizes.pop()[1]
        self._sizes.append((self.last_tick, size))
