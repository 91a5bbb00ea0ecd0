"""How a node is: its broker's own status, and what the shell around it counts; JSON at ``/status``."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from penstock.protocol.status import BrokerStatus

__all__ = ["NodeStatus"]


class NodeStatus(Struct):
    """One node."""

    name: str
    overlay: str
    address: str
    uptime_ms: int
    serving: bool
    broker: BrokerStatus
    node: dict[str, int] = field(default_factory=dict)
    """What the shell counts."""
    store: dict[str, Any] = field(default_factory=dict)
    """Empty if it keeps nothing."""
    shipping: dict[str, Any] = field(default_factory=dict)
    """Empty if it ships nothing to a lake."""
