"""IP multicast between hosts under one common limit, without a central server ([Ajil])."""

from __future__ import annotations

from penstock.live.multicast.address import GroupAddress
from penstock.live.multicast.node import MulticastNode
from penstock.live.multicast.packets import Packet

__all__ = ["GroupAddress", "MulticastNode", "Packet"]
