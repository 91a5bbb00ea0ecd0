"""Statuses of brokers and nodes for tests, from as few figures as a test needs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.live.node_status import NodeStatus
from penstock.protocol.status import BrokerStatus

__all__ = ["broker_status", "node_status"]


def broker_status(figures: Mapping[str, object] | None = None) -> BrokerStatus:
    """The status of a broker that says this, and of all else nothing."""
    return msgspec.convert({"broker": "b1", **(figures or {})}, BrokerStatus)


def node_status(figures: Mapping[str, object] | None = None, broker: Mapping[str, object] | None = None) -> NodeStatus:
    """The status of a node that says this, around a broker that says that."""
    usual = {"name": "b1", "overlay": "test", "address": "127.0.0.1:1", "uptime_ms": 1_500, "serving": True}
    return msgspec.convert({**usual, **(figures or {}), "broker": broker_status(broker)}, NodeStatus)
