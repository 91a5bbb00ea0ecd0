"""The reaction domain: the top senders in the top groups ([Ajil] section 3.2, figure 1).

A fraction of 0 stands for the single highest (section 4.1). Equal rates are ranked by name, so that nodes with the same
knowledge agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from penstock.ajil.amounts import Floats, Indices

__all__ = ["places", "ranks_within", "top_channels", "top_groups"]

_WHOLE = 1e-9
"""Rounding error by which a product of fractions may exceed a whole number."""
_BAND = 0.015
"""The rate of the last of the top groups seldom changes by more than this share from one epoch to the next."""


def places(fraction: float, count: int) -> int:
    """How many of ``count`` are in the domain: the fraction, rounded up, and at least one."""
    return max(ceil(fraction * count - _WHOLE), 1)


def top_groups(
    rates: Floats, wanted: Indices, alpha: float, names: Sequence[str], *, near: float = 0.0
) -> tuple[NDArray[np.bool_], float]:
    """Whether each wanted group is among the top ones of those with any traffic; and the lowest rate among the top.

    That rate changes little from epoch to epoch: giving the previous one as ``near`` finds it faster.
    """
    mine = rates[wanted]
    active = int(np.count_nonzero(rates))
    room = places(alpha, active)
    if room >= active:
        return np.greater(mine, 0), 0.0
    threshold = _highest(rates, room, near)
    inside: NDArray[np.bool_] = mine > threshold
    at = mine == threshold
    if at.any():
        left = room - int(np.count_nonzero(rates > threshold))
        tied = sorted(np.flatnonzero(rates == threshold).tolist(), key=lambda each: names[each])
        inside |= at & np.isin(wanted, tied[:left])
    return inside, threshold


def _highest(rates: Floats, number: int, near: float) -> float:
    """The rate with this rank, 1 for the highest; searches only near the expected rate if the result lies there."""
    if near > 0:
        above = rates > near * (1 + _BAND)
        band = rates[(rates >= near * (1 - _BAND)) ^ above]
        place = len(band) - (number - int(np.count_nonzero(above)))
        if 0 <= place < len(band):
            return float(np.partition(band, place)[place])
    place = len(rates) - number
    return float(np.partition(rates, place)[place])


def top_channels(ranks: Floats, sizes: Floats, beta: float) -> NDArray[np.bool_]:
    """Whether each channel's rank (from 1) puts it among the top senders of its group."""
    return ranks <= np.maximum(np.ceil(beta * sizes - _WHOLE), 1)


def ranks_within(groups: Indices, rates: Floats) -> Floats:
    """The rank of every channel in its group, from 1 for the highest rate; equal rates keep their order."""
    order = np.lexsort((-rates, groups))
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
    lengths = np.diff(np.r_[starts, len(order)])
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order)) - np.repeat(starts, lengths) + 1
    return ranks
