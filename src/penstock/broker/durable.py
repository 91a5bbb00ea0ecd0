"""The data that a broker keeps durably: the changes it gathers into a commit, and what it recovers when it starts.

A shell makes all changes of a commit durable together or not at all. Ticks and bodies are as in the streams. Besides
the log there are named values, all of which are loaded at startup, and kept records ([Tracking] section 3.2). There may
be millions of those: a broker loads only the part of each that it needs at startup, and reads a whole one on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.model.tick import Tick, TickRange
from penstock.tracking.records import DamagedRecordError
from penstock.tracking.stored import HEADER_BYTES_MAX, StoredFilter, decode_header

__all__ = [
    "KEPT_READ_BYTES_MAX",
    "SMALL_RECORD_BYTES_MAX",
    "Append",
    "Change",
    "ForgetPublishers",
    "KeepRecord",
    "MarkLost",
    "Recovered",
    "RecoveredPubend",
    "SetValue",
    "Trim",
    "add_part",
    "needed_at_start",
    "parts_of",
    "space_bytes",
]

KEPT_READ_BYTES_MAX: Final = 4 << 20
"""Most bytes of kept records in one answer, unless the first one alone has more."""
SMALL_RECORD_BYTES_MAX: Final = 1_024
"""Records up to this size are written like named values, even when there is no space for messages."""
_FILTERS: Final = "filter/"
_PART_BYTES: Final = 64 * 1024
_PARTS_MIN: Final = 64
"""Parts of a recovered log, if its batches are small enough."""


@dataclass(slots=True, frozen=True)
class Append:
    """Appends messages to a pubend's log, with what must be remembered together with them."""

    pubend: str
    messages: Sequence[tuple[Tick, bytes]] = ()
    """Ticks and bodies: strictly ascending, above every earlier message and not below what was trimmed."""
    lease: Tick | None = None
    """The tick up to which the pubend may promise silence from now on; never below an earlier lease."""
    sequences: Mapping[bytes, int] = field(default_factory=dict)
    """Highest sequence number by publisher; a lower one than stored changes nothing."""


@dataclass(slots=True, frozen=True)
class MarkLost:
    """Marks ticks of a pubend as lost: reads that meet them report them as damaged, until they are trimmed.

    The ticks lie above every message of the log, and not below what was trimmed. Carried out before the appends of the
    same group, which must lie above: the last of these ticks counts as the last tick of the log from then on.
    """

    pubend: str
    ticks: TickRange


@dataclass(slots=True, frozen=True)
class Trim:
    """Drops the messages of a pubend below a tick, which stays the lower bound for good."""

    pubend: str
    below_tick: Tick
    batches_max: int = 1_000
    """Most stored batches dropped in one commit, so that no publish waits for long; the rest needs another commit."""


@dataclass(slots=True, frozen=True)
class ForgetPublishers:
    """Drops the sequence numbers of publishers whose latest message is below a tick."""

    pubend: str
    below_tick: Tick


@dataclass(slots=True, frozen=True)
class SetValue:
    """Sets a small named value, or deletes it if None."""

    name: str
    value: bytes | None


@dataclass(slots=True, frozen=True)
class KeepRecord:
    """Keeps a record under its name, replacing any earlier one, or deletes it if None."""

    name: str
    value: bytes | None


Change = Append | MarkLost | Trim | ForgetPublishers | SetValue | KeepRecord
"""Anything that may be part of a commit."""


@dataclass(slots=True, frozen=True)
class RecoveredPubend:
    """What a broker recovers of one pubend when it starts."""

    lease: int | None = None
    """The tick up to which an earlier life may have promised something."""
    last_tick: int | None = None
    """The tick of the newest message ever appended."""
    first_tick: int | None = None
    """The tick of the oldest message that is still kept."""
    trimmed_below: int = 0
    parts: tuple[tuple[int, int], ...] = ()
    """The kept messages in parts as ``parts_of`` makes them: the last tick of each, and the bytes of its bodies."""
    sequences: Mapping[bytes, int] = field(default_factory=dict)
    """The highest sequence number of each remembered publisher."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the bodies that are still kept."""
        return sum(size for _, size in self.parts)


@dataclass(slots=True, frozen=True)
class Recovered:
    """Everything that a broker recovers when it starts."""

    pubends: Mapping[str, RecoveredPubend] = field(default_factory=dict)
    values: Mapping[str, bytes] = field(default_factory=dict)
    """Named values; a damaged one is empty, so that its reader knows that something was there."""
    kept: Mapping[str, bytes] = field(default_factory=dict)
    """What ``needed_at_start`` returns for every kept record, in the order in which they were last kept.

    A damaged record has an empty value, so that its reader knows that something was there. If the shell cannot even
    tell the names, the mapping is empty.
    """


def needed_at_start(name: str, value: bytes) -> bytes:
    """Returns the part of a record that a broker must load when it starts: the header of a closed filter, else all.

    Open filters are continued, so they are needed whole. A filter that cannot be read is cut to the length of the
    longest header, and left to its reader to report.
    """
    if not name.startswith(_FILTERS):
        return value
    try:
        header = decode_header(value)
    except DamagedRecordError:
        return value[:HEADER_BYTES_MAX]
    return value if header.is_open else value[: len(StoredFilter(header, b"").encode())]


def add_part(
    parts: MutableSequence[tuple[int, int]], last_tick: int, size_bytes: int, part_bytes: int = _PART_BYTES
) -> None:
    """Appends messages to the parts of a log, given their last tick and size; joins neighbours up to this size."""
    if parts and parts[-1][1] + size_bytes <= part_bytes:
        size_bytes += parts.pop()[1]
    parts.append((last_tick, size_bytes))


def parts_of(sizes: Iterable[tuple[int, int]], total_bytes: int) -> tuple[tuple[int, int], ...]:
    """The parts of a whole log, given last ticks and sizes of its batches: few, but fine enough to trim by size."""
    parts: list[tuple[int, int]] = []
    part_bytes = min(_PART_BYTES, total_bytes // _PARTS_MIN)
    for last_tick, size_bytes in sizes:
        add_part(parts, last_tick, size_bytes, part_bytes)
    return tuple(parts)


def space_bytes(change: Change) -> int:
    """Bytes of space that a change needs; zero if it makes room, or is small enough to be written anyway."""
    if isinstance(change, Append):
        return sum(len(body) for _, body in change.messages)
    if isinstance(change, KeepRecord) and change.value is not None:
        return len(change.value) if len(change.value) > SMALL_RECORD_BYTES_MAX else 0
    return 0
