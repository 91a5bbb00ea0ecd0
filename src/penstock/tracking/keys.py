"""The keys of histories: what happened to messages, and where they originated ([Tracking] section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["HistoryKey", "Phase", "history_key"]


class Phase(StrEnum):
    """What a broker did with a message."""

    PUBLISH = "publish"
    """Took it from a publisher: HP."""
    ROUTE = "route"
    """Handled it on its way from the origin: Hb."""
    DELIVER = "deliver"
    """Delivered it to subscribers: one history for all of them, or the paper's Hb,s."""


@dataclass(slots=True, frozen=True, order=True)
class HistoryKey:
    """The name of one history of a broker."""

    phase: Phase
    origin: int
    """Number of the broker the messages were published at, according to their ids."""
    part: str = ""
    """The subscriber (Hb,s) or the neighbour (Hb,d), if the history is for one only."""
    is_late: bool = False
    """Whether it holds messages that came too late for the history of the same name."""

    def __str__(self) -> str:
        late = "~late" if self.is_late else ""
        return f"{self.phase}{late}/{self.origin}/{self.part}" if self.part else f"{self.phase}{late}/{self.origin}"

    @property
    def late(self) -> HistoryKey:
        """The name of its late history."""
        return HistoryKey(self.phase, self.origin, self.part, is_late=True)


def history_key(text: str) -> HistoryKey:
    """Parses a key from its text; raises ``ValueError`` for anything else."""
    phase, _, rest = text.partition("/")
    origin, _, part = rest.partition("/")
    name, tilde, late = phase.partition("~")
    if tilde and late != "late":
        raise ValueError(f"{text!r} names no history")
    return HistoryKey(Phase(name), int(origin), part, is_late=bool(tilde))
