"""A guaranteed pubend at its own broker: assigns ticks under a durable lease, deduplicates, promises silence.

[Gryphon] section 2; for ticks see `model.tick`. A message gets its tick when it comes in, and is announced only when it
is durable. Everything up to ``promised`` is known for good: what is not in the log is silence. A restart begins above
the lease of the former life, which may have promised anything up to there. While its broker asks others what they
have heard of former lives (``inquiry``), it waits: then it knows nothing beyond its last message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.broker.due import Due
from penstock.broker.durable import Append, MarkLost, RecoveredPubend, Trim, add_part
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import Tick, TickRange, tick_at
from penstock.model.values import AttributeValue
from penstock.streams.knowledge import Knowledge

__all__ = ["PubendLog"]

_SLEW: Final = 10
"""A stream that is ahead of the clock falls back by a tenth of the time that passes, until they agree."""
_RECENT_MAX: Final = 4_096
"""Batches whose messages can be counted; those before them are estimated."""
_PUBLISHERS_MAX: Final = 100_000
"""Most publishers whose messages are deduplicated."""
_NEVER: Final = 2**62


@dataclass(slots=True)
class _Pending:
    """Messages whose commit is pending."""

    commit: int
    ticks: list[int]
    bodies: list[bytes]
    decoded: list[dict[str, AttributeValue]]


class PubendLog:
    """One pubend's ticks, lease, publishers and sizes; the messages themselves are in the shell's store."""

    def __init__(self, name: str, settings: BrokerSettings, recovered: RecoveredPubend | None = None) -> None:
        found = recovered or RecoveredPubend()
        self.name = name
        self._lease_ms = settings.lease_ms
        self._silence_ms = settings.silence_ms
        self.due = Due(self.next_deadline)
        """When silence is announced next, if no message comes before."""
        self._lease = self._lease_asked = found.lease or 0
        self._leases: deque[tuple[int, int]] = deque()
        self._pending: deque[_Pending] = deque()
        self._sequences = dict(found.sequences)
        self._commit = 0
        self.has: Final[int] = max(found.last_tick or 0, found.trimmed_below - 1, 0)
        """The tick up to which the store of the former life has, or misses, all messages."""
        self.promised: int = max(found.lease or 0, found.last_tick or 0, found.trimmed_below - 1, 0)
        """The last tick up to which everything is known for good."""
        self.former: Final[int] = self.promised
        """The tick up to which the former life may have promised something, as far as the store knows."""
        self.is_begun = True
        """Whether it takes messages, and says what is known."""
        self.has_lost = False
        """Whether it began this life without some of what former ones had committed."""
        self.last_tick: int = self.promised
        """The last tick that was assigned or promised to be silent."""
        self.trimmed_below = found.trimmed_below
        self.size_bytes = found.size_bytes
        self._parts = deque(found.parts)
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT_MAX)
        """First and last tick of the latest batches; each tick between is a message."""
        self._ahead_ms: int | None = None
        self._slewed_ms = self._spoke_ms = 0
        self._told_until = found.last_tick or 0
        self.announced = 0
        """The last tick with a message that this life has announced; 0 if it has announced none."""
        self._skipped = 0
        """The tick up to which no message gets one, besides those that are assigned or promised."""
        self._ends_in_silence = False
        self.mean_bytes = 256.0
        """The recent mean size of a message."""
        self.repeated = 0
        """Messages recognised as duplicates."""
        self.jumped = 0
        """How often a known publisher went on beyond its next number."""

    def wait(self) -> None:
        """Takes and says nothing until it begins: what lies beyond its last message is not known for good yet."""
        self.is_begun = False
        self.promised = self.last_tick = self.has

    def begin(self, *, heard: int = 0, now_ms: int) -> Trim | None:
        """Begins above all that former lives may have promised; a new log begins at the present time.

        Ticks before a new log are unknown, and not silence: the pubend may have had another one before, which was
        lost, and of which others have ``heard``.
        """
        if self.former:
            self._begin_above(self.former)
            return None
        self.has_lost = heard > 0
        self._begin_above(max(tick_at(now_ms) - 1, heard + (self._lease_ms << 16 if heard else 0)))
        self._told_until = self.promised
        self.trimmed_below = self.promised + 1
        return Trim(self.name, Tick(self.trimmed_below))

    def mark_lost(self, heard: int, *, now_ms: int) -> MarkLost:
        """The change that gives up everything between the last message and the present, or what others have heard.

        And a little more, if the clock is behind: messages that nobody has heard of lie at most a lease beyond.
        """
        last = max(self.former, heard + (self._lease_ms << 16), tick_at(now_ms) - 1)
        return MarkLost(self.name, TickRange(Tick(self.has + 1), Tick(last)))

    def begin_after(self, lost: TickRange) -> None:
        """Begins above ticks that are marked as lost, durably."""
        self.has_lost = True
        self._begin_above(lost.last)
        self._told_until = self.promised

    def skip_to(self, tick: int) -> None:
        """Gives no message a tick up to this one: others have heard of it in a former life."""
        self._skipped = max(self._skipped, tick)

    def _begin_above(self, tick: int) -> None:
        self.is_begun = True
        self.promised = self.last_tick = tick
        self._ahead_ms = None
        self.due.ask()

    # --- messages

    def publish(
        self,
        publisher: bytes,
        first: int,
        bodies: list[bytes],
        decoded: list[dict[str, AttributeValue]],
        *,
        may_jump: bool = False,
        now_ms: int,
    ) -> Append | None:
        """Returns what must be made durable for messages numbered from ``first``; None if all were sent before.

        Only the next number of a known publisher is accepted, unless it may jump: then the publisher knows that what
        lies between is settled, because it was refused, or because this log has lost its memory of it.
        """
        known = self.last_number(publisher)
        last = first + len(bodies) - 1
        if 0 < known < first - 1:
            assert may_jump, f"message {first} of a publisher to {self.name} follows message {known}"
            self.jumped += 1
        if known >= first:
            old = min(known - first + 1, len(bodies))
            self.repeated += old
            bodies, decoded = bodies[old:], decoded[old:]
        if not bodies:
            return None
        if publisher:
            self._remember(publisher, last)
        # Not the very next tick: after each batch there is a tick of silence, which can be announced again.
        start = max(self.last_tick + 2, self._skipped + 1, tick_at(self.stream_ms(now_ms)))
        ticks = list(range(start, start + len(bodies)))
        self.last_tick = ticks[-1]
        self._pending.append(_Pending(0, ticks, bodies, decoded))
        size = sum(map(len, bodies))
        self.mean_bytes += (size / len(bodies) - self.mean_bytes) / 8
        self._grow(size)
        self._recent.append((ticks[0], ticks[-1]))
        messages = tuple(zip(map(Tick, ticks), bodies, strict=True))
        return Append(self.name, messages, self._next_lease(now_ms), {publisher: last} if publisher else {})

    def last_number(self, publisher: bytes) -> int:
        """The number of the last message of a publisher; 0 if it is not known."""
        return self._sequences.get(publisher, 0) if publisher else 0

    def on_appended(self, change: Append, commit: int) -> None:
        """Notes which commit the append (or the renewed lease) will be in."""
        self._commit = commit
        if change.messages:
            self._pending[-1].commit = commit
        if change.lease is not None:
            self._leases.append((commit, change.lease))

    @property
    def last_commit(self) -> int:
        """The commit that makes everything accepted so far durable."""
        return self._commit

    def on_committed(self, number: int, *, now_ms: int) -> Knowledge | None:
        """Commits up to this number are durable; returns what can be announced now, if anything."""
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
        if ticks:
            self.announced = ticks[-1]
        return self._say(ticks[-1], ticks, bodies, decoded, now_ms) if ticks else None

    # --- silence

    def silence(self, *, now_ms: int) -> Knowledge | None:
        """Returns the silence up to now, if it is time to announce it."""
        if not self.is_begun or now_ms < self._spoke_ms + self._silence_ms:
            return None
        until = min(tick_at(self.stream_ms(now_ms)) - 1, self._lease)
        if self._pending:
            until = min(until, self._pending[0].ticks[0] - 1)
        if until <= self.promised and self._told_until >= self.promised:
            self._spoke_ms = now_ms
            # Messages or the lease wait for the disk, maybe for long. A host that missed the last announcement must
            # learn that there was one: a full log is trimmed only when everybody has received what is in it.
            return Knowledge(self.name, self.promised, self.promised) if self._ends_in_silence else None
        return self._say(max(until, self.promised), (), (), [], now_ms)

    def renewal(self, *, now_ms: int) -> Append | None:
        """Returns a longer lease, if the present one ends soon."""
        lease = self._next_lease(now_ms)
        return None if lease is None else Append(self.name, lease=lease)

    def next_deadline(self) -> int:
        """When to announce silence."""
        return self._spoke_ms + self._silence_ms if self.is_begun else _NEVER

    def speak_every(self, silence_ms: int) -> None:
        """Announces silence after this long without messages."""
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
        """Notes that everything below this tick is gone."""
        self.trimmed_below = max(self.trimmed_below, below_tick)
        while self._parts and self._parts[0][0] < below_tick:
            self.size_bytes -= self._parts.popleft()[1]

    def tick_keeping(self, bytes_kept: int) -> int:
        """The tick below which the log can be trimmed so that at least this many bytes stay."""
        surplus, below = self.size_bytes - bytes_kept, 0
        for last, size in self._parts:
            surplus -= size
            if surplus < 0:
                break
            below = last + 1
        return below

    def bytes_from(self, tick: int) -> int:
        """About how many bytes of messages are kept from a tick on: too many by less than a part."""
        return sum(size for last, size in self._parts if last >= tick)

    def messages_from(self, tick: int) -> tuple[int, bool]:
        """How many messages are kept from a tick on, and whether that is exact; else it is estimated from the bytes."""
        tick = max(tick, self.trimmed_below)
        count = sum(last - max(first, tick) + 1 for first, last in self._recent if last >= tick)
        earliest = self._recent[0][0] if self._recent else self.last_tick + 1
        older_bytes = sum(size for last, size in self._parts if tick <= last < earliest)
        return count + round(older_bytes / self.mean_bytes), not older_bytes

    def check_invariants(self) -> None:
        """Fails if the pubend promised what it may not."""
        assert self.promised <= self.last_tick
        assert self._lease <= self._lease_asked
        assert self.last_tick <= max(self._lease_asked, self.promised)
        assert all(each.ticks[0] > self.promised for each in self._pending)
        assert self.size_bytes == sum(size for _, size in self._parts)

    def _say(
        self,
        last: int,
        ticks: Sequence[int],
        bodies: Sequence[bytes],
        decoded: list[dict[str, AttributeValue]],
        now_ms: int,
    ) -> Knowledge:
        # Repeats what the former life promised after its last message: nobody knows who heard it.
        first = min(self._told_until, self.promised) + 1
        spoken = Knowledge(self.name, first, last, ticks, bodies, decoded=decoded)
        self.promised = self._told_until = last
        self._ends_in_silence = not ticks or ticks[-1] < last
        self.last_tick = max(self.last_tick, last)
        self._spoke_ms = now_ms
        return spoken

    def _remember(self, publisher: bytes, sequence: int) -> None:
        # The publisher that was silent longest is forgotten first.
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
        add_part(self._parts, self.last_tick, size)
