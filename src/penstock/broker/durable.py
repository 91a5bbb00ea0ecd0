"""What a broker keeps durably: the changes that it gathers into a commit, and what it finds again when it starts.

A shell makes all changes of a commit durable together or not at all. Ticks and bodies are as in the streams. Beside the
log there are named values, of which a broker finds all when it starts, and kept records ([Tracking] section 3.2), of
which there may be millions: it finds what it needs of each at a start, and reads the whole of one when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.model.tick import Tick
from penstock.tracking.records import DamagedRecordError
from penstock.tracking.stored import HEADER_BYTES_MAX, StoredFilter, decode_header

__all__ = [
    "KEPT_READ_BYTES_MAX",
    "SMALL_RECORD_BYTES_MAX",
    "Append",
    "Change",
    "ForgetPublishers",
    "KeepRecord",
    "Recovered",
    "RecoveredPubend",
    "SetValue",
    "Trim",
    "needed_at_start",
    "space_bytes",
]

KEPT_READ_BYTES_MAX: Final = 4 << 20
"""Bytes of kept records in one answer, unless the first one alone has more."""
SMALL_RECORD_BYTES_MAX: Final = 1_024
"""Records up to this size are written like named values, even when there is no space for messages."""
_FILTERS: Final = "filter/"


@dataclass(slots=True, frozen=True)
class Append:
    """Messages at the end of a pubend's log, with what must be remembered together with them."""

    pubend: str
    messages: Sequence[tuple[Tick, bytes]] = ()
    """Ticks and bodies: strictly ascending, above every earlier message and not below what was trimmed."""
    lease: Tick | None = None
    """The tick up to which the pubend may promise silence from now on; never below an earlier lease."""
    sequences: Mapping[bytes, int] = field(default_factory=dict)
    """Highest sequence number by publisher; a lower one than stored changes nothing."""


@dataclass(slots=True, frozen=True)
class Trim:
    """Drops the messages of a pubend below a tick, which stays the lower bound for good."""

    pubend: str
    below_tick: Tick
    batches_max: int = 1_000
    """Most stored batches dropped in one commit, so that nobody's publish waits for long; the rest needs another."""


@dataclass(slots=True, frozen=True)
class ForgetPublishers:
    """Drops the sequence numbers of publishers whose latest message is below a tick."""

    pubend: str
    below_tick: Tick


@dataclass(slots=True, frozen=True)
class SetValue:
    """A small named value, or nothing in its place."""

    name: str
    value: bytes | None


@dataclass(slots=True, frozen=True)
class KeepRecord:
    """A record under its name, in place of any other of that name; or none there any more."""

    name: str
    value: bytes | None


Change = Append | Trim | ForgetPublishers | SetValue | KeepRecord
"""Whatever may be part of a commit."""


@dataclass(slots=True, frozen=True)
class RecoveredPubend:
    """What is found of one pubend when a broker starts."""

    lease: int | None = None
    """The tick up to which an earlier life may have promised something."""
    last_tick: int | None = None
    """The tick of the newest message there ever was."""
    first_tick: int | None = None
    """The tick of the oldest message that is kept."""
    trimmed_below: int = 0
    size_bytes: int = 0
    """Bytes of the bodies that are kept."""
    sequences: Mapping[bytes, int] = field(default_factory=dict)
    """The highest sequence number of each publisher that is remembered."""


@dataclass(slots=True, frozen=True)
class Recovered:
    """What is found when a broker starts."""

    pubends: Mapping[str, RecoveredPubend] = field(default_factory=dict)
    values: Mapping[str, bytes] = field(default_factory=dict)
    kept: Mapping[str, bytes] = field(default_factory=dict)
    """What ``needed_at_start`` says of every kept record, in the order in which they were last kept.

    A damaged one is there without a byte: whoever needs it must know that something was there. If the shell cannot even
    tell the names, there is none at all.
    """


def needed_at_start(name: str, value: bytes) -> bytes:
    """The beginning of a record that a broker must find when it starts: of a closed filter its header, else all.

    Filters in which more may be recorded are continued, so they are needed whole. One that cannot be read is left to
    whoever says so, up to the length of the longest header.
    """
    if not name.startswith(_FILTERS):
        return value
    try:
        header = decode_header(value)
    except DamagedRecordError:
        return value[:HEADER_BYTES_MAX]
    return value if header.is_open else value[: len(StoredFilter(header, b"").encode())]


def space_bytes(change: Change) -> int:
    """Bytes for which a change needs space; none if it makes room or is small, and so can do without."""
    if isinstance(change, Append):
        return sum(len(body) for _, body in change.messages)
    if isinstance(change, KeepRecord) and change.value is not None:
        return len(change.value) if len(change.value) > SMALL_RECORD_BYTES_MAX else 0
    return 0
