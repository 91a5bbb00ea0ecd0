"""A simulated broker's durable store: kept in memory, with the rules of the live one (decisions 4 and 5).

A broken rule is a mistake of the broker, and fails. Every message is a record of its own here, where the live store has
batches: so ``batches_max`` may cut a trim short, and damage may end a read, after any message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from penstock.broker.durable import (
    KEPT_READ_BYTES_MAX,
    Append,
    Change,
    ForgetPublishers,
    KeepRecord,
    MarkLost,
    Recovered,
    RecoveredPubend,
    SetValue,
    Trim,
    needed_at_start,
    parts_of,
)
from penstock.model.tick import TICK_MAX, Tick, TickRange

__all__ = ["Disk"]


@dataclass(slots=True)
class _Log:
    """One pubend's part of the disk."""

    ticks: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    damaged: set[int] = field(default_factory=set)
    lost: list[TickRange] = field(default_factory=list)
    """Ticks that were marked as lost, ascending."""
    lease: int | None = None
    last_tick: int | None = None
    trimmed_below: int = 0
    size_bytes: int = 0
    publishers: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Highest sequence number and latest tick of each publisher."""

    @property
    def next_tick(self) -> int:
        """The lowest tick that the next message may have."""
        return self.trimmed_below if self.last_tick is None else max(self.trimmed_below, self.last_tick + 1)

    def recovered(self) -> RecoveredPubend:
        sizes = [(tick, len(body)) for tick, body in zip(self.ticks, self.bodies, strict=True)]
        return RecoveredPubend(
            lease=self.lease,
            last_tick=self.last_tick,
            first_tick=self.ticks[0] if self.ticks else None,
            trimmed_below=self.trimmed_below,
            parts=parts_of(sizes, self.size_bytes),
            sequences={publisher: sequence for publisher, (sequence, _) in self.publishers.items()},
        )


class Disk:
    """The logs of a broker's pubends, its named values and kept records; outlives the broker."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._values: dict[str, bytes] = {}
        self._kept: dict[str, bytes] = {}
        self._kept_damaged: set[str] = set()
        self._kept_bytes = 0
        self.journal: list[tuple[str, int, bytes]] | None = None
        """If a list: pubend, tick and body of every message that ever became durable, for the checkers."""
        self.marked: list[tuple[str, TickRange]] = []
        """Every range of ticks that was ever marked as lost, with its pubend, for the checkers."""

    def copy(self) -> Disk:
        """A backup: what is on the disk now, without the journal."""
        backup = deepcopy(self, {id(self.journal): None})
        backup.journal = None
        return backup

    def restore(self, backup: Disk) -> None:
        """Replace everything by what a backup has; what is kept for the checkers goes on."""
        restored = backup.copy()
        restored.journal, restored.marked = self.journal, self.marked
        vars(self).update(vars(restored))

    @property
    def size_bytes(self) -> int:
        """Bytes of all stored bodies and records."""
        return sum(log.size_bytes for log in self._logs.values()) + self._kept_bytes

    def growth_bytes(self, changes: Sequence[Change]) -> int:
        """By how much the changes would grow ``size_bytes``, trims aside."""
        last = {change.name: change.value for change in changes if isinstance(change, KeepRecord)}
        grown = sum(len(value or b"") - len(self._kept.get(name, b"")) for name, value in last.items())
        appends = [change for change in changes if isinstance(change, Append)]
        return grown + sum(len(body) for append in appends for _, body in append.messages)

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply the changes, all or none: appends, then trims, then the rest in order, as the live store does."""
        appends = [change for change in changes if isinstance(change, Append)]
        for change in changes:
            if isinstance(change, MarkLost):
                self._mark_lost(change)
        self._check(appends)
        for append in appends:
            self._append(append)
        for change in changes:
            if isinstance(change, Trim):
                self._trim(change)
        for change in changes:
            match change:
                case ForgetPublishers(pubend, below_tick):
                    log = self._log(pubend)
                    log.publishers = {who: each for who, each in log.publishers.items() if each[1] >= below_tick}
                case SetValue(name, None):
                    self._values.pop(name, None)
                case SetValue(name, bytes(value)):
                    self._values[name] = value
                case KeepRecord(name, kept):
                    self._keep(name, kept)

    def read(
        self, pubend: str, first: int, last: int, bytes_max: int
    ) -> tuple[list[tuple[int, bytes]], int, TickRange | None]:
        """Read messages with these ticks, in order: at least one if there is one, and as many as the bytes allow.

        Returns them, the tick up to which they are complete (which may lie after the last one asked for), and the ticks
        right after it that can never be read: they are damaged or were trimmed, which must not look like silence.
        """
        log = self._logs.get(pubend) or _Log()
        if first < log.trimmed_below:
            return [], first - 1, TickRange(Tick(first), Tick(min(last, log.trimmed_below - 1)))
        messages: list[tuple[int, bytes]] = []
        gone = next((each for each in log.lost if each.last >= first), None)
        for place in range(bisect_left(log.ticks, first), len(log.ticks)):
            tick, body = log.ticks[place], log.bodies[place]
            if gone is not None and gone.first < tick:
                break
            if tick > last:
                # The ticks in between are known to be silence.
                return messages, tick - 1, None
            if tick in log.damaged:
                return messages, tick - 1, TickRange(Tick(tick), Tick(tick))
            if messages and len(body) > bytes_max:
                return messages, tick - 1, None
            messages.append((tick, body))
            bytes_max -= len(body)
        if gone is None:
            return messages, int(TICK_MAX), None
        return messages, max(first, gone.first) - 1, gone if gone.first <= last else None

    def recovered(self) -> Recovered:
        """What a broker finds on its disk when it starts."""
        kept = {
            name: b"" if name in self._kept_damaged else needed_at_start(name, value)
            for name, value in self._kept.items()
        }
        return Recovered({name: log.recovered() for name, log in self._logs.items()}, dict(self._values), kept)

    def read_kept(self, names: Sequence[str], *, bytes_max: int = KEPT_READ_BYTES_MAX) -> dict[str, bytes | None]:
        """Read kept records in order, at least one and as many as the bytes allow; None if missing or damaged."""
        values: dict[str, bytes | None] = {}
        for name in names:
            value = None if name in self._kept_damaged else self._kept.get(name)
            if values and len(value or b"") > bytes_max:
                break
            values[name] = value
            bytes_max -= len(value or b"")
        return values

    def kept_names(self) -> list[str]:
        """The names of the kept records, damaged ones included, in the order in which they were last kept."""
        return list(self._kept)

    def damage_kept(self, name: str) -> None:
        """Make a kept record unreadable, until it is written again."""
        assert name in self._kept, f"there is no record {name}"
        self._kept_damaged.add(name)

    def pubends(self) -> list[str]:
        """The pubends that ever had a change."""
        return list(self._logs)

    def ticks(self, pubend: str) -> list[int]:
        """The ticks of the stored messages, damaged ones included, in order."""
        return list(self._logs[pubend].ticks) if pubend in self._logs else []

    def last_tick(self, pubend: str) -> int:
        """The last tick at which a message was ever stored; 0 if there was none."""
        return (self._logs[pubend].last_tick or 0) if pubend in self._logs else 0

    def lease(self, pubend: str) -> int:
        """The tick up to which a pubend may have made promises; 0 if it never could."""
        return (self._logs[pubend].lease or 0) if pubend in self._logs else 0

    def trimmed_below(self, pubend: str) -> int:
        """The tick below which a pubend's log was trimmed."""
        log = self._logs.get(pubend)
        return 0 if log is None else log.trimmed_below

    def damage(self, pubend: str, tick: int) -> bytes:
        """Make a message unreadable; returns its body, so that nobody is blamed for its loss."""
        log = self._logs.get(pubend) or _Log()
        place = bisect_left(log.ticks, tick)
        assert log.ticks[place : place + 1] == [tick], f"pubend {pubend}: there is no message with tick {tick}"
        log.damaged.add(tick)
        return log.bodies[place]

    def _log(self, pubend: str) -> _Log:
        return self._logs.setdefault(pubend, _Log())

    def _check(self, appends: Sequence[Append]) -> None:
        """Fails if an append breaks a rule, before anything is changed."""
        lowest: dict[str, int] = {}
        leases: dict[str, int] = {}
        for append in appends:
            pubend, log = append.pubend, self._logs.get(append.pubend) or _Log()
            least = lowest.get(pubend, log.next_tick)
            for tick, _ in append.messages:
                assert least <= tick <= TICK_MAX, f"pubend {pubend}: tick {tick} is below {least}, the lowest to follow"
                least = tick + 1
            lowest[pubend] = least
            if append.lease is not None:
                before = leases.get(pubend, log.lease)
                assert before is None or append.lease >= before, f"pubend {pubend}: lease {append.lease} < {before}"
                leases[pubend] = append.lease
            for sequence in append.sequences.values():
                assert sequence >= 0, f"pubend {pubend}: sequence {sequence} is negative"

    def _keep(self, name: str, value: bytes | None) -> None:
        self._kept_bytes += len(value or b"") - len(self._kept.pop(name, b""))
        self._kept_damaged.discard(name)
        if value is not None:
            self._kept[name] = value

    def _append(self, append: Append) -> None:
        log = self._log(append.pubend)
        for tick, body in append.messages:
            log.ticks.append(tick)
            log.bodies.append(body)
            log.last_tick = tick
            log.size_bytes += len(body)
            if self.journal is not None:
                self.journal.append((append.pubend, tick, body))
        if append.lease is not None:
            log.lease = append.lease
        latest = append.messages[-1][0] if append.messages else log.last_tick or 0
        for publisher, sequence in append.sequences.items():
            highest, newest = log.publishers.get(publisher, (0, 0))
            log.publishers[publisher] = max(highest, sequence), max(newest, latest)

    def _mark_lost(self, change: MarkLost) -> None:
        log, ticks = self._log(change.pubend), change.ticks
        assert log.next_tick <= ticks.first <= ticks.last <= TICK_MAX, (
            f"pubend {change.pubend}: lost ticks {ticks.first} to {ticks.last} do not lie above {log.next_tick - 1}"
        )
        log.lost.append(ticks)
        self.marked.append((change.pubend, ticks))
        log.last_tick = ticks.last

    def _trim(self, trim: Trim) -> None:
        assert trim.batches_max > 0, f"pubend {trim.pubend}: a trim of {trim.batches_max} batches never ends"
        log = self._log(trim.pubend)
        if trim.below_tick <= log.trimmed_below:
            return
        count = min(bisect_left(log.ticks, trim.below_tick), trim.batches_max)
        log.size_bytes -= sum(map(len, log.bodies[:count]))
        log.damaged -= set(log.ticks[:count])
        del log.ticks[:count], log.bodies[:count]
        # If later commits have more to drop, the bound is where this one ended.
        log.trimmed_below = min(trim.below_tick, log.ticks[0]) if log.ticks else trim.below_tick
        log.lost = [each for each in log.lost if each.last >= log.trimmed_below]
