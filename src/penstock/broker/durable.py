"""What a commit may change: values, which the caller gathers and the store makes durable together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.model.tick import Tick

__all__ = ["Append", "Change", "ForgetPublishers", "SetValue", "Trim"]


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
