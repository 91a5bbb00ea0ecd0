"""What a shell tells a node at the end of an epoch, as arrays ([Ajil] pseudocode 1, lines 2 and 3 of the monitor)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.ajil.amounts import Floats, Indices

__all__ = ["Observation"]


@dataclass(slots=True)
class Observation:
    """One epoch as a node has seen it; of two rows the first is in bytes, the second in packets."""

    rows: Indices
    """The monitor's rows of the groups that the node is a member of."""
    amounts: Floats
    """Two rows: the traffic of each of these groups."""
    members: Floats
    """How many may report on each of them."""
    sent: Floats
    """Two rows: what each channel of the node has sent."""
    ranks: Floats
    """Two rows: the rank of each channel among the senders of its group, from 1."""
    sizes: Floats
    """How many senders the group of each channel has."""
    wanted: Floats
    """Two rows: what each channel would have sent without any limit."""
    waiting: NDArray[np.bool_] | None = None
    """With which channels something waits to be sent; None if what may not be sent is dropped."""

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
        """A channel was closed: it has sent nothing, for whoever comes to its place."""
        if place < len(self.sizes):
            self.sent[:, place], self.wanted[:, place], self.ranks[:, place] = 0, 0, np.inf
            if self.waiting is not None:
                self.waiting[place] = False
