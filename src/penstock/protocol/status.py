"""How a broker is, as it says to clients that ask and to its operator: one shape from the broker to the command line.

It travels as JSON in a ``StatusReply``. Everything has a default, so that a client understands brokers that say less,
and what a newer one says besides is left alone. What mechanisms say of themselves is theirs alone to shape.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

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
    """What a broker knows of who wants what."""

    hosts: int = 0
    entries: int = 0
    own: int = 0


class DurableStatus(Struct):
    """A durable subscription, as a pubend knows it."""

    tick: int = 0
    """Below it, everything is acknowledged."""
    host: str = ""
    client: str = ""


class PubendStatus(Struct):
    """A guaranteed pubend at its own broker."""

    last_tick: int = 0
    promised: int = 0
    trimmed_below: int = 0
    size_bytes: int = 0
    repeated: int = 0
    hosts: dict[str, int] = field(default_factory=dict)
    """The ticks below which hosts have everything."""
    durables: dict[str, DurableStatus] = field(default_factory=dict)
    """By name, those furthest behind."""
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
    """By name and pubend: messages that were sent to a client here, and are not acknowledged."""
    cache_bytes: int = 0
    commits_waiting: int = 0
    held_back: str = ""
    """Why publishers have to wait, if they have to."""


class RateStatus(Struct):
    """How fast a pubend publishes, and may."""

    rate_msg_s: float = 0.0
    allowed_msg_s: float | None = None
    decreases: int = 0
    increases: int = 0
    uca_seq: int = 0
    uca_rate: float | None = None
    uca_host: str = ""


class FlowStatus(Struct):
    """How a stream moves at a host."""

    horizon_rate: float = 0.0
    lag_ms: int = 0
    recovering: bool = False
    nack_window_ms: int = 0


class CongestionStatus(Struct):
    """Congestion control at one broker."""

    pubends: dict[str, RateStatus] = field(default_factory=dict)
    streams: dict[str, FlowStatus] = field(default_factory=dict)


class DrainStatus(Struct):
    """How far a broker is with sending its clients away."""

    on: bool = False
    left: int = 0
    going: int = 0
    staying: dict[str, int] = field(default_factory=dict)
    """How many cannot go, by the reason."""
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
    """One broker."""

    broker: str
    overlay: str = ""
    incarnation: int = 0
    pubends: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)
    """Those of the overlay that can be reached."""
    clients: int = 0
    strangers: int = 0
    subscriptions: int = 0
    filters: FilterStatus = field(default_factory=FilterStatus)
    outbox_bytes: int = 0
    outboxes: dict[str, int] = field(default_factory=dict)
    """By link: data that waits to be sent."""
    dropped: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    malformed: int = 0
    refused: int = 0
    guaranteed: GuaranteedStatus = field(default_factory=GuaranteedStatus)
    congestion: CongestionStatus = field(default_factory=CongestionStatus)
    tracking: dict[str, Any] = field(default_factory=dict)
    migration: MigrationStatus = field(default_factory=MigrationStatus)
    mechanisms: dict[str, dict[str, Any]] = field(default_factory=dict)
