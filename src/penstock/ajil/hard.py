"""The hard limit: every node announces its demand, and all share the limit out by the same table.

Beyond the paper ([Ajil] section 7 asks for it, and lowering the threshold is not enough: the first epoch of a surge
still exceeds the limit by the whole surge). A node sends at most L w / W in an epoch: w is the lower of its own last
two announcements, W sums the higher of the last two of every node. So a growing node is counted by others before it
uses more, and a shrinking one uses less before others rely on it. As long as every node has heard one of the last two
announcements of every other, the shares never sum to more than L. A node that has announced only once gets nothing yet.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.ajil.amounts import Floats, Indices, Unit
from penstock.ajil.groups import GroupIndex

__all__ = ["SILENT_EPOCHS", "HardShares"]

SILENT_EPOCHS: Final = 10
"""A node not heard for this long is gone; until then it keeps its share."""
_SMOOTHING: Final = 0.25
"""Weight of the newest demand in the announced one."""


class HardShares:
    """The announcements of all nodes, as one node knows them."""

    def __init__(self, nodes: GroupIndex, own: str) -> None:
        self.nodes = nodes
        self._own = nodes.number(own)
        self._newest: Floats = np.zeros((2, 0))
        self._before: Floats = np.zeros((2, 0))
        self._heard: Indices = np.zeros(0, dtype=np.int64)
        self._serials: dict[int, int] = {}
        self._announced = 0
        self._smooth: Floats = np.zeros(2)
        self._grow(len(nodes))

    def announce(self, demand: Floats, *, epoch: int) -> tuple[int, Floats]:
        """Smooths this node's demand; returns the serial number and the demand to announce."""
        # If a demand jumps up and down, the lower and the higher of two announcements are far apart.
        self._smooth = np.array(demand) if self._announced == 0 else self._smooth + _SMOOTHING * (demand - self._smooth)
        self._announced += 1
        self.hear_many(np.array([self._own]), self._smooth[:, None], epoch=epoch)
        return self._announced, self._smooth

    def hear(self, node: str, serial: int, demand: Floats, *, epoch: int) -> bool:
        """Takes an announcement of another node; returns False if it is a repetition, or older than the last."""
        number = self.nodes.number(node)
        if number == self._own or serial <= self._serials.get(number, 0):
            return False
        self._serials[number] = serial
        self._grow(number + 1)
        self.hear_many(np.array([number]), demand[:, None], epoch=epoch)
        return True

    def hear_many(self, numbers: Indices, demands: Floats, *, epoch: int) -> None:
        """Takes announcements of several nodes, as arrays."""
        self._before[:, numbers] = self._newest[:, numbers]
        self._newest[:, numbers] = demands
        self._heard[numbers] = epoch

    def budget(self, unit: Unit, limit: float, *, epoch: int) -> float:
        """How much this node may send in the epoch that begins."""
        gone = self._heard < epoch - SILENT_EPOCHS
        if gone.any():
            self._newest[:, gone] = 0
            self._before[:, gone] = 0
            for number in np.flatnonzero(gone).tolist():
                # It may come back from a restart, and count from 1 again.
                self._serials.pop(number, None)
        counted = float(np.maximum(self._newest[unit], self._before[unit]).sum())
        used = min(float(self._newest[unit, self._own]), float(self._before[unit, self._own]))
        return limit * used / counted if counted > 0 else 0.0

    def _grow(self, nodes: int) -> None:
        more = nodes - len(self._heard)
        if more > 0:
            self._newest = np.concatenate([self._newest, np.zeros((2, more))], axis=1)
            self._before = np.concatenate([self._before, np.zeros((2, more))], axis=1)
            self._heard = np.concatenate([self._heard, np.zeros(more, dtype=np.int64)])
