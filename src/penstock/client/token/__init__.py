"""The wandering token for applications: many programs do heavy chores about one at a time, without a coordinator."""

from __future__ import annotations

from penstock.client.token.carrier import Alone, Carrier, Receiver
from penstock.client.token.group import TokenCounters, TokenGroup
from penstock.client.token.overlay import ThroughOverlay
from penstock.client.token.protected import Protected, current_fence, protected
from penstock.client.token.udp import OverUdp
from penstock.token.tokens import Fence, FenceWatch

__all__ = [
    "Alone",
    "Carrier",
    "Fence",
    "FenceWatch",
    "OverUdp",
    "Protected",
    "Receiver",
    "ThroughOverlay",
    "TokenCounters",
    "TokenGroup",
    "current_fence",
    "protected",
]
