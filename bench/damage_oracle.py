"""Judges a store after damage by what it acknowledged and nothing else, kept in plain dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.broker.durable import Append, Change, ForgetPublishers, KeepRecord, RecoveredPubend, SetValue, Trim
from penstock.live.store import LogStore
from penstock.model.tick import TICK_MAX, Tick

__all__ = ["Found", "Truth", "differences"]

_PART_BYTES: Final = 1 << 20


@dataclass(slots=True)
class _Log:
    """The acknowledged state of one pubend."""

    messages: dict[int, bytes] = field(default_factory=dict)
    """Messages still kept, by tick."""
    ever: dict[int, bytes] = field(default_factory=dict)
    """All messages ever appended, including trimmed ones."""
    lease: int | None = None
    last: int | None = None
    trimmed: int = 0
    sequences: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Sequence number and tick by publisher."""

    def copy(self) -> _Log:
        return _Log(dict(self.messages), dict(self.ever), self.lease, self.last, self.trimmed, dict(self.sequences))


@dataclass(slots=True)
class Truth:
    """Everything that was acknowledged."""

    logs: dict[str, _Log] = field(default_factory=dict)
    values: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, bytes] = field(default_factory=dict)
    is_put_aside: bool = False
    """Whether the store said in this life that all kept records of earlier lives are lost."""

    def copy(self) -> Truth:
        """An independent copy."""
        return Truth({name: log.copy() for name, log in self.logs.items()}, dict(self.values), dict(self.kept))

    def lease_at_least(self, pubend: str, lease: Tick | None) -> Tick | None:
        """The lease, or the current one if that is higher."""
        held = self.logs[pubend].lease if pubend in self.logs else None
        return lease if lease is None or held is None else Tick(max(lease, held))

    def acknowledge(self, changes: Sequence[Change]) -> None:
        """Apply a commit that has returned: appends first, then trims, then the rest."""
        for change in changes:
            if isinstance(change, Append):
                self._append(change)
        for change in changes:
            if isinstance(change, Trim):
                self._trim(change)
        for change in changes:
            match change:
                case ForgetPublishers(pubend, below_tick):
                    log = self.logs.setdefault(pubend, _Log())
                    log.sequences = {name: kept for name, kept in log.sequences.items() if kept[1] >= below_tick}
                case SetValue(name, value):
                    _put(self.values, name, value)
                case KeepRecord(name, value):
                    _put(self.kept, name, value)

    def _append(self, change: Append) -> None:
        log = self.logs.setdefault(change.pubend, _Log())
        for tick, body in change.messages:
            log.messages[tick] = log.ever[tick] = body
            log.last = tick
        if change.lease is not None:
            log.lease = change.lease
        for publisher, sequence in change.sequences.items():
            before = log.sequences.get(publisher, (0, 0))
            log.sequences[publisher] = (max(before[0], sequence), max(before[1], log.last or 0))

    def _trim(self, change: Trim) -> None:
        log = self.logs.setdefault(change.pubend, _Log())
        log.trimmed = max(log.trimmed, change.below_tick)
        log.messages = {tick: body for tick, body in log.messages.items() if tick >= log.trimmed}


def _put(where: dict[str, bytes], name: str, value: bytes | None) -> None:
    where.pop(name, None)
    if value is not None:
        where[name] = value


@dataclass(slots=True)
class Found:
    """How a store differs from the truth."""

    named: list[str] = field(default_factory=list)
    """What is missing, and reported by the store."""
    silent: list[str] = field(default_factory=list)
    """What is missing or different, and not reported."""


def differences(truth: Truth, store: LogStore, *, doubts: Sequence[str] = (), is_salvaged: bool = False) -> Found:
    """Compare a store with the truth; salvaging reported ``doubts``, each with a table as its first word."""
    found = Found()
    recovered = store.recovered()
    if recovered.pubends.keys() != truth.logs.keys() and not (
        is_salvaged and recovered.pubends.keys() > truth.logs.keys()
    ):
        found.silent.append(f"pubends {list(recovered.pubends)} in place of {list(truth.logs)}")
        return found
    doubted = {each.split()[0] for each in doubts}
    for name, log in truth.logs.items():
        state = recovered.pubends[name]
        _compare_log(found, name, log, store, is_salvaged=is_salvaged)
        _compare_bounds(found, name, log, state, is_salvaged=is_salvaged)
        sequences = {publisher: kept[0] for publisher, kept in log.sequences.items()}
        if state.sequences != sequences:
            (found.named if "sequence" in doubted else found.silent).append(f"sequence numbers of {name} differ")
    # A line in the log is not enough: whoever reads an empty value tells its subscriber, a missing one looks new.
    damaged = [name for name in store.damaged_values() if recovered.values.get(name) == b""]
    _compare_records(found, "value", truth.values, recovered.values, damaged, is_doubted="named" in doubted)
    _compare_kept(found, truth, store, is_doubted="kept" in doubted)
    return found


def _compare_log(found: Found, name: str, log: _Log, store: LogStore, *, is_salvaged: bool) -> None:
    read: dict[int, bytes] = {}
    lost: list[tuple[int, int]] = []
    first = Tick(log.trimmed)
    while first <= TICK_MAX:
        part = store.read_part(name, first, TICK_MAX, bytes_max=_PART_BYTES)
        read.update(part.messages)
        last = part.last
        if part.damaged is not None:
            last = part.damaged.ticks.last
            lost.append((int(part.last) + 1, int(last)))
        if last >= TICK_MAX:
            break
        first = Tick(last + 1)
    known = log.ever if is_salvaged else log.messages
    wrong = [tick for tick, body in read.items() if known.get(tick) != body]
    if wrong:
        found.silent.append(f"{name}: ticks {wrong[:5]} are not what was written")
    missing = [tick for tick in log.messages if tick not in read]
    unnamed = [tick for tick in missing if not any(low <= tick <= high for low, high in lost)]
    if unnamed:
        found.silent.append(f"{name}: {len(unnamed)} messages are missing, such as {unnamed[:5]}")
    if lost:
        found.named.append(f"{name}: lost {lost[:5]}")


def _compare_bounds(found: Found, name: str, log: _Log, state: RecoveredPubend, *, is_salvaged: bool) -> None:
    if is_salvaged:
        # Streams continue above the lease: it may be higher, but never lower.
        highest = max(state.lease or 0, state.last_tick or 0)
        if highest < max(log.lease or 0, log.last or 0):
            found.silent.append(f"{name}: goes on at {highest}, below {log.lease} or {log.last}")
        return
    if (state.lease, state.last_tick, state.trimmed_below) != (log.lease, log.last, log.trimmed):
        found.silent.append(f"{name}: bounds are {state}, not {(log.lease, log.last, log.trimmed)}")


def _compare_records(
    found: Found,
    what: str,
    expected: Mapping[str, bytes],
    given: Mapping[str, bytes | None],
    damaged: Sequence[str],
    *,
    is_doubted: bool,
) -> None:
    for name in sorted({*expected, *given}):
        if given.get(name) != expected.get(name):
            is_named = is_doubted or name in damaged
            (found.named if is_named else found.silent).append(f"{what} {name} differs")


def _compare_kept(found: Found, truth: Truth, store: LogStore, *, is_doubted: bool) -> None:
    if store.kept_found.is_put_aside and not truth.is_put_aside:
        found.named.append("kept records were put aside")
        truth.kept.clear()
    truth.is_put_aside = store.kept_found.is_put_aside
    names = sorted({*truth.kept, *store.recovered().kept})
    part = store.read_kept(names, bytes_max=1 << 30)
    damaged = [*part.damaged, *store.kept_found.damaged]
    _compare_records(found, "kept record", truth.kept, part.values, damaged, is_doubted=is_doubted)
