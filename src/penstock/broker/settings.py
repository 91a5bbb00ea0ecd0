"""What a broker must know before it starts; units in the names, checked on construction."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Self

from penstock.ajil.settings import LimitSettings
from penstock.balancing.settings import BalancingSettings
from penstock.broker.access import Access
from penstock.congestion.settings import CongestionSettings
from penstock.model.errors import MisuseError
from penstock.model.names import is_plain_name
from penstock.token.settings import Plan
from penstock.tracking.settings import TrackingSettings

__all__ = ["BrokerSettings", "SettingsError", "SettingsInForce"]

_MEBIBYTE = 1024 * 1024


class SettingsError(MisuseError):
    """A setting has a value that cannot work."""


@dataclass(slots=True, frozen=True)
class BrokerSettings:
    """The settings of one broker."""

    name: str
    """Unique in the overlay; letters, digits, dash, underscore and dot."""
    overlay: str = "penstock"
    """The overlay this broker belongs to; brokers and clients of another one are refused. Shared by all brokers."""
    number: int = 1
    """Unique in the overlay; part of every message identifier made here."""
    pubends: tuple[str, ...] = ()
    """The named streams that publishers of this broker write to; empty for a broker that hosts no publishers."""
    best_effort: tuple[str, ...] = ()
    """Those of the pubends that guarantee nothing and keep nothing; the others need a durable log."""
    neighbours: tuple[str, ...] = ()
    """The brokers it has links with, whether it dials them or they dial it."""
    members: tuple[str, ...] = ()
    """All brokers of the overlay; empty if nobody knows: then whoever is heard of counts."""
    link_credential: str = field(default="", repr=False)
    """The secret by which brokers of the overlay know each other; empty if certificates or nothing protects links."""
    access: Access = field(default_factory=Access)
    """Who may connect, and publish and see what."""

    address: str = ""
    """What clients are told that have to come here from another broker; empty if that is the name."""

    heartbeat_ms: int = 1_000
    """A connection on which nothing else was sent for so long carries a heartbeat."""
    silent_ms: int = 5_000
    """A connection on which nothing was heard for so long is closed."""
    handshake_ms: int = 5_000
    """A connection that has not said who it is by then is closed."""
    subscribe_wait_ms: int = 3_000
    """A subscription is confirmed after this time at the latest, with the pubends that have not answered as pending."""
    acknowledge_ms: int = 250
    """An acknowledgement that nobody asked for may wait so long for others to go with it."""
    credit_bytes: int = 2 * _MEBIBYTE
    """Bytes a client may publish without an acknowledgement."""
    client_outbox_bytes: int = 64 * _MEBIBYTE
    """Data that may wait for one client; a client that lets more wait is disconnected."""
    link_outbox_bytes: int = 64 * _MEBIBYTE
    """Data that may wait for one link; more is dropped."""
    control_outbox_bytes: int = 16 * _MEBIBYTE
    """Control frames that may wait for one connection; a peer that lets more wait is disconnected."""
    held_back_bytes: int = 128 * _MEBIBYTE
    """When this much data waits in all outboxes together, publishers get no more credit until it is less."""
    report_ms: int = 1_000
    """How often clients are told how far streams are, and pubends how far clients are."""
    silence_ms: int = 1_000
    """A guaranteed stream in which nothing was published for so long says so."""
    lease_ms: int = 5_000
    """How far ahead of its clock a pubend may promise ticks and silence; a restart after a crash begins behind it."""
    receive_window_ms: int = 10_000
    """How much of a stream is kept beyond its doubt horizon."""
    receive_window_bytes: int = 16 * _MEBIBYTE
    """The same, in bytes of messages; for each stream."""
    cache_bytes: int = 16 * _MEBIBYTE
    """What a broker remembers of each guaranteed pubend to answer for those behind it."""
    catch_ups_max: int = 4
    """Catch-up streams of one pubend that run at a time; who comes later waits, and shares."""
    grace_ms: int = 60_000
    """For so long a host keeps the positions of clients that vanished."""
    retain_ms: int = 300_000
    """Messages younger than this stay in the log, whoever has received them."""
    retain_bytes: int = 0
    """So much of a pubend's log stays, whoever has received it."""
    retain_bytes_max: int = 4096 * _MEBIBYTE
    """At this size of a pubend's log the policy decides."""
    retain_policy: str = "hold"
    """``hold``: publishers wait until subscribers have caught up; ``lapse``: the oldest is given up, with an alarm."""
    congestion: CongestionSettings = field(default_factory=CongestionSettings)
    """How pubends follow the slowest broker, and how fast lost messages are asked for again."""
    balancing: BalancingSettings = field(default_factory=BalancingSettings)
    """How load is shared with other brokers; off unless it is asked for."""
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    """How it is recorded where messages came from and went to."""
    migration_ms: int = 30_000
    """A client that was asked to go to another broker has to be there by then, or counts as one that stays."""
    token: Plan | None = None
    """What is asked of the token that walks over all brokers; none walks without it. Shared by all brokers."""
    limit: LimitSettings | None = None
    """The limit on all that is published in the overlay; None if there is none, and none can be heard of."""
    connections_max: int = 10_000
    """Connections a broker accepts."""
    strangers_max: int = 256
    """Connections among them that have not proved who they are; when there are more, the oldest is closed."""
    subscriptions_max: int = 1_000_000
    """Subscriptions of all its clients together."""
    durables_max: int = 100_000
    """Durable subscriptions that each pubend of this broker keeps."""
    client_durables_max: int = 1_000
    """Durable subscriptions of one client, by its name, that each pubend keeps, where clients prove who they are."""
    client_connections_max: int = 1_000
    """Connections that one client, by its name, may have at this broker."""
    client_waiting_bytes_max: int = 96 * _MEBIBYTE
    """What may wait for one client, by its name, on all its connections together; the one with most is closed then."""
    client_subscriptions_max: int = 10_000
    """Subscriptions that one client, by its name, may have on all its connections together."""
    client_selector_bytes_max: int = 4 * _MEBIBYTE
    """Selectors of all subscriptions of one client together; in memory each takes some twenty times as much."""
    client_effort_max: int = 20_000
    """Comparisons, operations and searches that subscriptions of one client may add to the matching of a message.

    Only of what no index answers, such as LIKE, <> or arithmetic. It takes about ten milliseconds, at most.
    """
    client_positions_max: int = 10_000
    """Pubends for which all subscriptions of one client together may state where they begin."""

    def __post_init__(self) -> None:
        for what, name in [
            ("name", self.name),
            ("overlay", self.overlay),
            *(("pubend", each) for each in self.pubends),
        ]:
            if not is_plain_name(name):
                raise SettingsError(f"{what} {name!r} is not 1 to 100 letters, digits, dashes, underscores or dots")
        if not 0 < self.number < 2**32:
            raise SettingsError(f"number {self.number} of broker {self.name} is not in 1 .. {2**32 - 1}")
        if self.silent_ms < 2 * self.heartbeat_ms:
            raise SettingsError(f"silent_ms {self.silent_ms} is less than two heartbeats of {self.heartbeat_ms} ms")
        for each in (
            "heartbeat_ms",
            "handshake_ms",
            "subscribe_wait_ms",
            "acknowledge_ms",
            "credit_bytes",
            "connections_max",
            "strangers_max",
            "durables_max",
            "client_durables_max",
            "client_connections_max",
            "client_waiting_bytes_max",
            "client_subscriptions_max",
            "client_selector_bytes_max",
            "client_effort_max",
            "client_positions_max",
            "report_ms",
            "silence_ms",
            "lease_ms",
            "receive_window_ms",
            "receive_window_bytes",
            "cache_bytes",
            "catch_ups_max",
            "grace_ms",
            "retain_bytes_max",
            "migration_ms",
        ):
            if getattr(self, each) <= 0:
                raise SettingsError(f"{each} {getattr(self, each)} is not positive")
        self._check_streams()
        if self.name in self.neighbours:
            raise SettingsError(f"broker {self.name} has a link to itself")

    @property
    def reached_at(self) -> str:
        """Where clients find this broker."""
        return self.address or self.name

    def _check_streams(self) -> None:
        if foreign := [name for name in self.best_effort if name not in self.pubends]:
            raise SettingsError(f"best_effort names {', '.join(foreign)}, not among the pubends of broker {self.name}")
        if self.lease_ms < 2 * self.silence_ms:
            raise SettingsError(f"lease_ms {self.lease_ms} is less than two silences of {self.silence_ms} ms")
        for each in ("retain_ms", "retain_bytes"):
            if getattr(self, each) < 0:
                raise SettingsError(f"{each} {getattr(self, each)} is negative")
        if self.retain_bytes > self.retain_bytes_max:
            raise SettingsError(f"retain_bytes {self.retain_bytes} is more than the maximum {self.retain_bytes_max}")
        if self.retain_policy not in {"hold", "lapse"}:
            raise SettingsError(f"retain_policy {self.retain_policy!r} is neither 'hold' nor 'lapse'")


class SettingsInForce(BrokerSettings):
    """The copy that all rooms of one broker read: the only settings that ever change, and only as a whole.

    Rooms that kept settings of their own would go on with the old ones; passing new ones to each of them is forgotten
    for the next room that comes.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # what changes is nothing to be found again by

    @classmethod
    def of(cls, settings: BrokerSettings) -> Self:
        """A copy that may change."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(BrokerSettings)})

    def change_to(self, settings: BrokerSettings) -> None:
        """From now on these are in force."""
        for each in fields(BrokerSettings):
            object.__setattr__(self, each.name, getattr(settings, each.name))
