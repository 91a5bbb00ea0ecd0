"""The arrays that a shell gives a node at the end of an epoch ([Ajil] pseudocode 1, lines 2 and 3 of the monitor)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.ajil.amounts import Floats, Indices

__all__ = ["Observation"]


@dataclass(slots=True)
class Observation:
    """One epoch as a node has seen it; where there are two rows, the first is in bytes, the second in packets."""

    rows: Indices
    """The monitor's rows of the groups that the node is a member of."""
    amounts: Floats
    """Two rows: the traffic of each of these groups."""
    members: Floats
    """How many members may report on each of these groups."""
    sent: Floats
    """Two rows: how much each channel of the node has sent."""
    ranks: Floats
    """Two rows: the rank of each channel among the senders of its group, from 1."""
    sizes: Floats
    """How many senders the group of each channel has."""
    wanted: Floats
    """Two rows: how much each channel would have sent without any limit."""
    waiting: NDArray[np.bool_] | None = None
    """Which channels have a backlog; None if traffic over a quota is dropped."""

    def fit(self, channels: int) -> None:
        """Makes room for channels that were opened later: they have sent nothing."""
        more = channels - len(self.sizes)
        if more > 0:
            nothing = np.zeros((2, more))
            self.sent = np.concatenate([self.sent, nothing], axis=1)
            self.wanted = np.concatenate([self.wanted, nothing], axis=1)
            self.ranks = np.concatenate([self.ranks, nothing + np.inf], axis=1)
            self.sizes = np.concatenate([self.sizes, np.ones(more)])
            if self.waiting is not None:
                self.waiting = np.concatenate([self.waiting, np.zeros(more, dtype=bool)])

    def forget(self, place: int) -> None:
        """Clears the place of a closed channel, for the next one that gets it."""
        if place < len(self.sizes):
            self.sent[:, place], self.wanted[:, place], self.ranks[:, place] = 0, 0, np.inf
            if self.waiting is not None:
                self.waiting[place] = False
