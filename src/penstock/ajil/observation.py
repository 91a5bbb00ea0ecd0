"""What a shell tells a node at the end of an epoch, as arrays ([Ajil] pseudocode 1, lines 2 and 3 of the monitor)."""

from __future__ import annotations

from dataclasses import dataclass

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
