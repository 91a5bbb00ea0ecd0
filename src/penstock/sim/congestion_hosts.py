"""Hosts on which answering NACKs takes time: what a publisher-hosting broker in a recovery is busy with.

[Gryphon] section 2 names the overhead of processing NACKs as the third kind of congestion: a NACK is small, and may ask
for many messages, which must be looked up and sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.errors import MisuseError
from penstock.protocol.frames import Frame, Nack
from penstock.sim.host import CostModel

__all__ = ["NackCostModel"]

_TICKS_PER_MS = 1 << 16


@dataclass(slots=True, frozen=True)
class NackCostModel(CostModel):
    """Besides what input costs: what it costs to answer."""

    nacked_ms_ns: int = 0
    """For each millisecond of a stream that a NACK asks for."""

    def __post_init__(self) -> None:
        # Without arguments, super() does not find its class where slots have made another of it.
        CostModel.__post_init__(self)
        if self.nacked_ms_ns < 0:
            raise MisuseError(f"nacked_ms_ns {self.nacked_ms_ns} is negative")

    def batch_ns(self, frames: Sequence[Frame], size: int) -> int:
        """What a batch of so many bytes costs, and the answers to the NACKs in it."""
        ticks = sum(last + 1 - first for frame in frames if isinstance(frame, Nack) for first, last in frame.ranges)
        return CostModel.batch_ns(self, frames, size) + self.nacked_ms_ns * ticks // _TICKS_PER_MS
