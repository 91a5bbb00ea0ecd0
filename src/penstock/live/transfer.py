"""Copies everything that a store has to another one, of whatever kind, in bounded memory, and compares the two.

Only changes of the law of stores (``stores``) are written, so whatever keeps it can be a target. A store stamps
publishers with the last tick of their append, and remembers the newest tick even if its message was trimmed. Where such
ticks have no message any more, an empty one is appended, and trimmed again at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, TypeAlias

from penstock.broker.durable import Append, KeepRecord, MarkLost, Recovered, RecoveredPubend, SetValue, Trim
from penstock.live.store.errors import StoreRefusedError
from penstock.live.store.proving import PART_BYTES, following
from penstock.live.store.publishers import PublisherMark
from penstock.live.store.reading import LogPart
from penstock.live.store_worker import INCARNATION
from penstock.live.stores import COPYING, MOVED, MovableStore
from penstock.model.errors import PenstockError
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange

__all__ = ["Choice", "CopyDiffersError", "OnCopy", "PubendFigures", "StoreFigures", "Transfer", "survey"]

OnCopy: TypeAlias = Callable[[int, int], None]
"""Called with the bytes of messages copied or compared, and all."""

_OF_PUBENDS: Final = ("durable", "last", "work")
"""The first words of the names of values that belong to a pubend, whose name follows."""
_NAMES_MAX: Final = 1_000
"""Named values and empty messages in one commit."""
_KEPT_BYTES: Final = 4 << 20


class CopyDiffersError(PenstockError):
    """A copy is not what was copied; it must not be used."""


@dataclass(slots=True, frozen=True)
class Choice:
    """What to copy: everything that a broker has, or what belongs to some of its pubends."""

    pubends: tuple[str, ...] = ()
    """The pubends to copy; empty for everything, histories for traces included."""
    keeps_moved: bool = True
    """Whether a copy of everything remembers which pubends were copied elsewhere before, and are not to be served."""

    def has_pubend(self, name: str) -> bool:
        """Whether a pubend is copied."""
        return not self.pubends or name in self.pubends

    def has_value(self, name: str) -> bool:
        """Whether a named value is copied; raises ``StoreRefusedError`` if nothing tells to whom it belongs."""
        if name == COPYING:
            return False
        if name.startswith(f"{MOVED}/"):
            return self.keeps_moved and not self.pubends
        if not self.pubends:
            return True
        kind, _, rest = name.partition("/")
        if kind in _OF_PUBENDS and rest:
            return rest.partition("/")[0] in self.pubends
        if name != INCARNATION:
            raise StoreRefusedError(f"nothing tells to which pubend the stored value {name!r} belongs: copy the whole")
        return False

    @property
    def has_kept(self) -> bool:
        """Whether kept records are copied: they say what one broker had, whatever pubend it came from."""
        return not self.pubends


@dataclass(slots=True)
class PubendFigures:
    """What a store has of one pubend; two stores with the same have the same messages."""

    lease: int | None = None
    trimmed_below: int = TICK_MIN
    first_tick: int | None = None
    last_tick: int | None = None
    messages: int = 0
    size_bytes: int = 0
    damaged: list[TickRange] = field(default_factory=list)
    publishers: int = 0
    publishers_digest: str = ""
    """Over publishers and their sequence numbers."""
    messages_digest: str = ""
    """Over ticks and bodies."""


@dataclass(slots=True)
class StoreFigures:
    """What a store has."""

    pubends: dict[str, PubendFigures] = field(default_factory=dict)
    values: int = 0
    values_digest: str = ""
    kept: int = 0
    kept_digest: str = ""
    """Over names and records, in the order in which they were kept."""
    damaged: list[str] = field(default_factory=list)
    """Named values and kept records that cannot be read; they are empty in a copy."""


class _Digest:
    """A digest over parts, none of which runs into the next."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)

    def add(self, *parts: bytes) -> None:
        for part in parts:
            self._hash.update(len(part).to_bytes(8))
            self._hash.update(part)

    def add_messages(self, messages: Sequence[tuple[Tick, bytes]]) -> None:
        for tick, body in messages:
            self._hash.update(tick.to_bytes(8) + len(body).to_bytes(8))
            self._hash.update(body)

    def __str__(self) -> str:
        return self._hash.hexdigest()


class Transfer:
    """One copy of a store, which nobody else uses meanwhile, into an empty one."""

    def __init__(self, source: MovableStore, target: MovableStore, choice: Choice, on_copy: OnCopy) -> None:
        self._source, self._target = source, target
        self._choice = choice
        self._on_copy = on_copy
        self._done_bytes = 0
        self._total_bytes = 0

    def run(self) -> StoreFigures:
        """Copy everything that is chosen; returns what the source has of that.

        The target bears a mark until ``complete`` is called, and no broker opens it before.
        """
        self._target.commit([SetValue(COPYING, b"1")])
        recovered = self._source.recovered()
        _check_chosen(recovered, self._choice)
        found = StoreFigures()
        chosen = {name: each for name, each in recovered.pubends.items() if self._choice.has_pubend(name)}
        self._total_bytes = sum(each.size_bytes for each in chosen.values())
        for name, pubend in chosen.items():
            found.pubends[name] = self._copy_pubend(name, pubend)
        self._copy_values(recovered, found)
        if self._choice.has_kept:
            self._copy_kept(recovered, found)
        return found

    def complete(self) -> None:
        """Take the mark away: the copy was compared, and brokers may open it."""
        self._target.commit([SetValue(COPYING, None)])

    def _copy_pubend(self, name: str, pubend: RecoveredPubend) -> PubendFigures:
        marks = deque(self._source.publishers(name))
        figures = _figures(pubend, marks)
        self._target.commit(
            [
                Append(
                    name,
                    lease=None if pubend.lease is None else Tick(pubend.lease),
                    sequences=_due(marks, TICK_MIN),
                )
            ]
        )
        self._copy_trimmed(name, pubend, marks)
        digest = _Digest()
        for part in _parts(self._source, name):
            appends = _appends(name, part.messages, marks)
            if appends:
                self._target.commit(appends)
            if part.damaged is not None:
                self._target.commit([MarkLost(name, part.damaged.ticks)])
                self._target.commit([Append(name, sequences=_due(marks, part.damaged.ticks.last))])
            self._done_bytes += _note(figures, digest, part)
            self._on_copy(self._done_bytes, self._total_bytes)
        if marks:
            self._target.commit([Append(name, sequences=_due(marks, TICK_MAX))])
        figures.messages_digest = str(digest)
        return figures

    def _copy_trimmed(self, name: str, pubend: RecoveredPubend, marks: deque[PublisherMark]) -> None:
        """Let the target know ticks below those that were trimmed, and trim it as far as the source."""
        below = Tick(pubend.trimmed_below)
        empty: list[Append] = []
        while marks and marks[0].tick < below:
            tick = marks[0].tick
            empty.append(Append(name, [(tick, b"")], sequences=_due(marks, tick)))
        last = pubend.last_tick
        if last is not None and last < below and (not empty or empty[-1].messages[0][0] < last):
            empty.append(Append(name, [(Tick(last), b"")]))
        for start in range(0, len(empty), _NAMES_MAX):
            self._target.commit(empty[start : start + _NAMES_MAX])
        while self._target.trimmed_below(name) < below:
            self._target.commit([Trim(name, below)])

    def _copy_values(self, recovered: Recovered, found: StoreFigures) -> None:
        chosen = {name: value for name, value in recovered.values.items() if self._choice.has_value(name)}
        found.values, found.values_digest = len(chosen), _values_digest(chosen)
        found.damaged += [name for name in self._source.damaged_values() if name in chosen]
        changes = [SetValue(name, value) for name, value in chosen.items()]
        for start in range(0, len(changes), _NAMES_MAX):
            self._target.commit(changes[start : start + _NAMES_MAX])

    def _copy_kept(self, recovered: Recovered, found: StoreFigures) -> None:
        if self._source.kept_found.is_put_aside:
            raise StoreRefusedError("the index of kept records is damaged: they were put aside; copy it again without")
        digest = _Digest()
        for part in _kept_parts(self._source, list(recovered.kept)):
            found.damaged += [name for name, value in part.items() if value is None]
            self._target.commit([KeepRecord(name, value or b"") for name, value in part.items()])
            _add_kept(digest, part)
        found.kept, found.kept_digest = len(recovered.kept), str(digest)


def survey(store: MovableStore, choice: Choice, on_read: OnCopy) -> StoreFigures:
    """Read everything that is chosen in a store, and say what it has."""
    recovered = store.recovered()
    found = StoreFigures()
    chosen = {name: each for name, each in recovered.pubends.items() if choice.has_pubend(name)}
    total_bytes = sum(each.size_bytes for each in chosen.values())
    done_bytes = 0
    for name, pubend in chosen.items():
        figures = _figures(pubend, store.publishers(name))
        digest = _Digest()
        for part in _parts(store, name):
            done_bytes += _note(figures, digest, part)
            on_read(done_bytes, total_bytes)
        figures.messages_digest = str(digest)
        found.pubends[name] = figures
    values = {name: value for name, value in recovered.values.items() if choice.has_value(name)}
    found.values, found.values_digest = len(values), _values_digest(values)
    if choice.has_kept:
        kept = _Digest()
        for records in _kept_parts(store, list(recovered.kept)):
            _add_kept(kept, records)
        found.kept, found.kept_digest = len(recovered.kept), str(kept)
    return found


def _check_chosen(recovered: Recovered, choice: Choice) -> None:
    for name in choice.pubends:
        if name not in recovered.pubends:
            known = ", ".join(recovered.pubends) or "none"
            raise StoreRefusedError(f"the store has no pubend {name!r}; there are: {known}")


def _figures(pubend: RecoveredPubend, marks: Sequence[PublisherMark] | deque[PublisherMark]) -> PubendFigures:
    digest = _Digest()
    for mark in sorted(marks, key=lambda each: each.publisher):
        digest.add(mark.publisher, mark.sequence.to_bytes(8))
    return PubendFigures(
        lease=pubend.lease,
        trimmed_below=pubend.trimmed_below,
        first_tick=pubend.first_tick,
        last_tick=pubend.last_tick,
        publishers=len(marks),
        publishers_digest=str(digest),
    )


def _note(figures: PubendFigures, digest: _Digest, part: LogPart) -> int:
    """Add a part of a log to its figures; returns the bytes of its bodies."""
    size_bytes = sum(len(body) for _, body in part.messages)
    figures.messages += len(part.messages)
    figures.size_bytes += size_bytes
    digest.add_messages(part.messages)
    if part.damaged is not None:
        figures.damaged.append(part.damaged.ticks)
    return size_bytes


def _parts(store: MovableStore, pubend: str) -> Iterator[LogPart]:
    """The log of a pubend, a bounded part at a time."""
    first: Tick | None = TICK_MIN
    while first is not None:
        part = store.read_part(pubend, first, TICK_MAX, bytes_max=PART_BYTES)
        yield part
        first = following(part)


def _appends(pubend: str, messages: list[tuple[Tick, bytes]], marks: deque[PublisherMark]) -> list[Append]:
    """Appends of these messages, each ending where the newest message of some publisher was."""
    appends: list[Append] = []
    start = 0
    for end, (tick, _) in enumerate(messages, start=1):
        if marks and marks[0].tick <= tick:
            appends.append(Append(pubend, messages[start:end], sequences=_due(marks, tick)))
            start = end
    if start < len(messages):
        appends.append(Append(pubend, messages[start:]))
    return appends


def _due(marks: deque[PublisherMark], tick: Tick) -> dict[bytes, int]:
    """Take out the publishers whose newest message has this tick or a lower one."""
    due: dict[bytes, int] = {}
    while marks and marks[0].tick <= tick:
        mark = marks.popleft()
        due[mark.publisher] = mark.sequence
    return due


def _kept_parts(store: MovableStore, names: list[str]) -> Iterator[dict[str, bytes | None]]:
    """All kept records in order, a bounded part at a time."""
    start = 0
    while start < len(names):
        part = store.read_kept(names[start : start + _NAMES_MAX], bytes_max=_KEPT_BYTES).values
        yield part
        start += len(part)


def _values_digest(values: dict[str, bytes]) -> str:
    digest = _Digest()
    for name in sorted(values):
        digest.add(name.encode(), values[name])
    return str(digest)


def _add_kept(digest: _Digest, part: dict[str, bytes | None]) -> None:
    for name, value in part.items():
        digest.add(name.encode(), value or b"")
