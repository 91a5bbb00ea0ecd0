"""A broker's status, for clients that ask and for its operator: one schema from the broker to the command line.

It travels as JSON in a ``StatusReply``. Everything but the broker's name has a default, so that a client understands
brokers that report less; it ignores whatever a newer broker adds. Each mechanism defines the shape of its own status.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from penstock.protocol.control import Count

__all__ = [
    "BrokerStatus",
    "CongestionStatus",
    "DrainStatus",
    "DurableStatus",
    "FilterStatus",
    "FlowStatus",
    "GuaranteedStatus",
    "MigrationStatus",
    "PubendStatus",
    "RateStatus",
    "StreamStatus",
]


class FilterStatus(Struct):
    """The sizes of the filters that a broker knows."""

    hosts: int = 0
    entries: int = 0
    own: int = 0


class DurableStatus(Struct):
    """A durable subscription, as a pubend knows it."""

    tick: int = 0
    """The tick below which everything is acknowledged."""
    host: str = ""
    client: str = ""


class PubendStatus(Struct):
    """A guaranteed pubend at its own broker."""

    last_tick: Count = 0
    promised: int = 0
    trimmed_below: int = 0
    size_bytes: int = 0
    repeated: int = 0
    hosts: dict[str, int] = field(default_factory=dict)
    """By host, the tick below which it has everything."""
    durables: dict[str, DurableStatus] = field(default_factory=dict)
    """The durable subscriptions furthest behind, by name."""
    durable_count: int = 0


class StreamStatus(Struct):
    """The stream of a guaranteed pubend at a host."""

    horizon: int = 0
    heard: int = 0
    pending_bytes: int = 0
    catch_ups: int = 0
    behind: int = 0
    """Subscriptions that the shared stream does not serve yet."""


class GuaranteedStatus(Struct):
    """Guaranteed delivery at one broker."""

    pubends: dict[str, PubendStatus] = field(default_factory=dict)
    streams: dict[str, StreamStatus] = field(default_factory=dict)
    durables: dict[str, dict[str, int]] = field(default_factory=dict)
    """By name and pubend, messages sent to a client here and not acknowledged."""
    cache_bytes: int = 0
    commits_waiting: int = 0
    held_back: str = ""
    """Why publishers have to wait; empty if they do not."""


class RateStatus(Struct):
    """How fast a pubend publishes, and how fast it may."""

    rate_msg_s: float = 0.0
    allowed_msg_s: float | None = None
    decreases: int = 0
    increases: int = 0
    uca_seq: int = 0
    uca_rate: float | None = None
    uca_host: str = ""


class FlowStatus(Struct):
    """How fast a stream advances at a host."""

    horizon_rate: float = 0.0
    lag_ms: int = 0
    recovering: bool = False
    nack_window_ms: int = 0


class CongestionStatus(Struct):
    """Congestion control at one broker."""

    pubends: dict[str, RateStatus] = field(default_factory=dict)
    streams: dict[str, FlowStatus] = field(default_factory=dict)


class DrainStatus(Struct):
    """Progress of a broker that is sending its clients away."""

    on: bool = False
    left: int = 0
    going: int = 0
    staying: dict[str, int] = field(default_factory=dict)
    """How many clients cannot go, by reason."""
    reasons: list[str] = field(default_factory=list)


class MigrationStatus(Struct):
    """Clients on their way between brokers."""

    moving: int = 0
    leaving: int = 0
    pinned: list[str] = field(default_factory=list)
    moves_asked: int = 0
    moves_left: int = 0
    moves_arrived: int = 0
    moves_failed: int = 0
    moves_unknown: int = 0
    drain: DrainStatus = field(default_factory=DrainStatus)


class BrokerStatus(Struct):
    """The status of one broker."""

    broker: str
    overlay: str = ""
    incarnation: int = 0
    pubends: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)
    """The brokers of the overlay that can be reached."""
    clients: int = 0
    strangers: int = 0
    subscriptions: int = 0
    filters: FilterStatus = field(default_factory=FilterStatus)
    outbox_bytes: int = 0
    outboxes: dict[str, int] = field(default_factory=dict)
    """Data waiting to be sent, by link."""
    dropped: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    malformed: int = 0
    refused: int = 0
    guaranteed: GuaranteedStatus = field(default_factory=GuaranteedStatus)
    congestion: CongestionStatus = field(default_factory=CongestionStatus)
    tracking: dict[str, Any] = field(default_factory=dict)
    migration: MigrationStatus = field(default_factory=MigrationStatus)
    mechanisms: dict[str, dict[str, Any]] = field(default_factory=dict)
