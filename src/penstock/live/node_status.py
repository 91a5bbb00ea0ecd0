"""The status of a node: its broker's own status, and the counters of the shell around it; JSON at ``/status``."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from penstock.protocol.status import BrokerStatus

__all__ = ["NodeStatus"]


class NodeStatus(Struct):
    """The status of one node."""

    name: str
    overlay: str
    address: str
    uptime_ms: int
    serving: bool
    broker: BrokerStatus
    node: dict[str, int] = field(default_factory=dict)
    """Counters of the shell."""
    store: dict[str, Any] = field(default_factory=dict)
    """Figures of the store; empty if the broker keeps nothing."""
    stores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Figures of the stores of the homes that run beside the broker, by home."""
    shipping: dict[str, Any] = field(default_factory=dict)
    """Figures of shipping; empty if the broker has no lake."""
