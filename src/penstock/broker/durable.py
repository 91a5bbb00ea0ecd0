"""What a broker keeps durably: the changes that it gathers into a commit, and what it finds again when it starts.

A shell makes all changes of a commit durable together or not at all. Ticks and bodies are as in the streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.model.tick import Tick

__all__ = ["Append", "Change", "ForgetPublishers", "Recovered", "RecoveredPubend", "SetValue", "Trim"]


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


Change = Append | Trim | ForgetPublishers | SetValue
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
