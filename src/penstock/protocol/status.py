"""A broker's status, for clients that ask and for its operator: one schema from the broker to the command line.

It travels as JSON in a ``StatusReply``. Everything but the broker's name has a default, so that a client understands
brokers that report less; it ignores whatever a newer broker adds. A field that is ``UNSET`` is absent from the JSON.

The figures of mechanisms are under ``mechanisms``, by name, as they travel. Callers may give a broker mechanisms of
their own, with figures of any shape. For those of every broker there are structs: ``balancing``, ``token``, ``limit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType, convert, field

from penstock.protocol.control import Count

__all__ = [
    "BalancingStatus",
    "BrokerStatus",
    "CandidacyStatus",
    "CardStatus",
    "CongestionStatus",
    "DecisionStatus",
    "DrainStatus",
    "DurableStatus",
    "FilterStatus",
    "FlowStatus",
    "GroupStatus",
    "GuaranteedStatus",
    "LimitStatus",
    "MigrationStatus",
    "PubendStatus",
    "RateStatus",
    "SessionStatus",
    "SlowedStatus",
    "StreamStatus",
    "TokenStatus",
    "TrackingStatus",
    "with_homes",
]

_Kind = TypeVar("_Kind")


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
    settled: int = 0
    """How many messages from that tick on are acknowledged one by one."""


class GroupStatus(Struct):
    """A group that shares the messages of a pubend."""

    client: str = ""
    """The client that made it; empty where clients need not authenticate."""
    selector: str = ""
    position: int = 0
    """The tick below which everything is done."""
    known: int = 0
    """Messages that are not done, as far as the group has looked at the log."""
    held: int = 0
    """Messages that members have."""
    dying: int = 0
    """Messages on their way to the dead letters."""
    members: dict[str, int] = field(default_factory=dict)
    """How many messages each member has, by name; where several have one name, by name and identity."""
    counts: dict[str, int] = field(default_factory=dict)


class LastValuesStatus(Struct):
    """What a pubend keeps of messages that were trimmed from its log: the newest of each key."""

    key: str = ""
    """The attribute whose values are the keys."""
    keys: int = 0
    size_bytes: int = 0
    dropped: int = 0
    """Messages that were dropped at a bound since the broker's start."""
    damaged: int = 0
    """Stored messages that could not be read when the broker was started."""


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
    groups: dict[str, GroupStatus] = field(default_factory=dict)
    """The groups that share its messages, by name."""
    last_values: LastValuesStatus | None = None
    """What it keeps of messages that were trimmed; None if it is not to keep any."""
    lost: tuple[int, int] | None = None
    """The first and last tick that it gave up when its broker started, as its store was an older copy; else None."""


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


class TrackingStatus(Struct):
    """What a broker records of the messages it had; with the strategy ``null`` it records nothing."""

    strategy: str = ""
    recorded: dict[str, int] | UnsetType = UNSET
    """Records, by phase: publish, route, deliver."""
    histories: int | UnsetType = UNSET
    memory_bytes: int | UnsetType = UNSET
    filters_kept: int | UnsetType = UNSET
    waiting_bytes: int | UnsetType = UNSET
    """Records that wait for a commit."""
    values: int | UnsetType = UNSET
    """Values written to the store."""
    bytes: int | UnsetType = UNSET
    """Bytes written to the store."""
    filters_dropped: int | UnsetType = UNSET
    attachments: int = 0
    aliases: int = 0
    damaged: int = 0


class SessionStatus(Struct):
    """A session of balancing under way; the heads of clusters count no subscribers."""

    number: int | UnsetType = UNSET
    partner: str = ""
    phase: str = ""
    total: int | UnsetType = UNSET
    """Subscribers that move."""
    arrived: int | UnsetType = UNSET


class CardStatus(Struct):
    """A report card: why some subscribers of one interest were chosen to move."""

    interest: str = ""
    subscribers: int = 0
    difference: str = ""
    """The difference left in the metric being balanced."""
    covered: str = ""
    reduces_msg_s: str = ""
    output_bytes_s: int = 0


class DecisionStatus(Struct):
    """Who was chosen to move, and why; without any fields before the first decision."""

    session: int | UnsetType = UNSET
    partner: str | UnsetType = UNSET
    metric: str | UnsetType = UNSET
    difference: float | UnsetType = UNSET
    overload: bool | UnsetType = UNSET
    """Whether the aim was relief from overload."""
    moved: int | UnsetType = UNSET
    cards: list[CardStatus] | UnsetType = UNSET
    """The first report cards."""


class BalancingStatus(Struct):
    """The load of an edge broker, or the mean load of a cluster at its head, and what is done to balance it.

    A head that shares its own clients with other heads has the figures of that in ``own``.
    """

    role: str = ""
    cluster: str = ""
    state: str = ""
    input: float = 0.0
    output: float = 0.0
    delay_s: float = 0.0
    cpu: float | UnsetType = UNSET
    """Like memory, known of single brokers only."""
    memory: float | UnsetType = UNSET
    peers: int | UnsetType = UNSET
    """At an edge: the edges it may balance with."""
    edges: int | UnsetType = UNSET
    """At a head: the edges of its cluster."""
    heads: int | UnsetType = UNSET
    """At a head: the heads of other clusters."""
    session: SessionStatus | None = None
    last: DecisionStatus | UnsetType = UNSET
    """At an edge: its last decision."""
    accuracy: dict[str, float | None] | UnsetType = UNSET
    """At an edge: how accurate its estimates were, by metric."""
    counts: dict[str, int] = field(default_factory=dict)
    own: BalancingStatus | UnsetType = UNSET
    """At a head in a group of heads: its own load, and what is done to share its clients with the others."""


class TokenStatus(Struct):
    """One member of the group that a token wanders through."""

    variant: str = ""
    members: int = 0
    op_ms: int = 0
    skip_ms: int = 0
    min_ms: int = 0
    max_ms: int = 0
    gen_ms: int = 0
    k_load: float = 0.0
    """The share of the least interval that one round of operations takes."""
    overloaded: bool = False
    holding: bool = False
    operating: bool = False
    operated_ms: int = 0
    fence: str = ""
    clock_faults: dict[str, int] = field(default_factory=dict)
    """By member, how far its clock is off, in ms."""
    operations: int = 0
    skips: int = 0
    discards: int = 0
    regenerations: int = 0
    handovers: int = 0
    unanswered: int = 0
    overlaps: int = 0
    overruns: int = 0
    malformed: int | UnsetType = UNSET
    """Messages that could not be read; counted by brokers only."""


class SlowedStatus(Struct):
    """A publisher that is slowed down in one group, to keep the limit."""

    publisher: str = ""
    group: str = ""
    unit: str = ""
    quota_s: float = 0.0
    why: str = ""


class LimitStatus(Struct):
    """The limit on all that is published, as one broker enforces it."""

    policy: str = ""
    version: int = 0
    author: str = ""
    estimate_bytes_s: int = 0
    estimate_packets_s: float = 0.0
    slowed_channels: int = 0
    slowed: list[SlowedStatus] = field(default_factory=list)
    reports_sent: int = 0
    reports_heard: int = 0
    malformed: int = 0
    held: int = 0


class CandidacyStatus(Struct):
    """A pubend with candidates, as one of them sees it."""

    pubend: str
    candidates: list[str] = field(default_factory=list)
    """In order of preference."""
    holder: str = ""
    """The candidate that ran its home when this one last heard of it; empty if nobody did."""
    epoch: int = 0
    """The epoch in which the home runs here and is ready; 0 if it does not."""
    wanted: str = ""
    """The candidate to which it is about to move; empty for none."""
    replicas: int = -1
    """How many synchronous standbys each commit waits for; -1 if the home does not run here."""
    held_back: str = ""
    """Why publishers of the pubend have to wait; empty if they do not, or if the home does not run here."""
    problem: str = ""
    """Why the database or the home could not be reached or run the last time; empty if all is well."""


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
    dead_letters: str = ""
    """The pubend to which groups give up messages; empty if there is none."""
    tracking: TrackingStatus = field(default_factory=TrackingStatus)
    migration: MigrationStatus = field(default_factory=MigrationStatus)
    mechanisms: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name, the figures of each mechanism that has any."""
    candidacies: list[CandidacyStatus] = field(default_factory=list)
    """The pubends that this broker may run the home of."""
    homes: dict[str, BrokerStatus] = field(default_factory=dict)
    """The homes that run beside this broker, as brokers of their own."""

    @property
    def balancing(self) -> BalancingStatus | None:
        """The status of balancing; None if the broker takes no part in it."""
        return self._of_mechanism("balancing", BalancingStatus)

    @property
    def token(self) -> TokenStatus | None:
        """The status of the wandering token; None if there is none."""
        return self._of_mechanism("token", TokenStatus)

    @property
    def limit(self) -> LimitStatus | None:
        """The status of the limit on what is published; None if there is none."""
        return self._of_mechanism("ajil", LimitStatus)

    def _of_mechanism(self, name: str, kind: type[_Kind]) -> _Kind | None:
        """A mechanism's figures as a struct; raises ``msgspec.ValidationError`` if a figure is of another type."""
        figures = self.mechanisms.get(name)
        return None if figures is None else convert(figures, kind)


def with_homes(statuses: Mapping[str, BrokerStatus]) -> dict[str, BrokerStatus]:
    """All brokers, each followed by the homes that run beside it: a home is a broker, too.

    Candidates that were asked at different times during a move may tell of the same home: its later life counts.
    """
    found: dict[str, BrokerStatus] = {}
    for name, told in statuses.items():
        found[name] = told
        for home, status in told.homes.items():
            if home not in found or found[home].incarnation < status.incarnation:
                found[home] = status
    return found
