"""The settings that a broker needs before it starts; units in the names, checked on construction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Self

from penstock.ajil.settings import LimitSettings
from penstock.balancing.settings import BalancingSettings
from penstock.broker.access import Access
from penstock.congestion.settings import CongestionSettings
from penstock.model.errors import MisuseError
from penstock.model.limits import NAME_CHARS_MAX
from penstock.model.names import is_plain_name
from penstock.token.settings import Plan
from penstock.tracking.settings import TrackingSettings

__all__ = ["BrokerSettings", "SettingsError", "SettingsInForce", "check_last_values"]

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
    """The pubends that guarantee nothing and keep nothing; the others need a durable log."""
    last_values: tuple[tuple[str, str], ...] = ()
    """Guaranteed pubends that keep last values beyond their logs, each with the attribute whose values are the keys."""
    all_last_values: tuple[tuple[str, str], ...] = ()
    """The same of the whole overlay; empty if unknown, and then each broker's own word counts."""
    neighbours: tuple[str, ...] = ()
    """The brokers it has links with, whichever end dials."""
    members: tuple[str, ...] = ()
    """All brokers of the overlay; empty if unknown, and then every broker it hears of counts."""
    homes: tuple[str, ...] = ()
    """The brokers among them that move: the homes of pubends with candidates. Only one life of each counts."""
    link_credential: str = field(default="", repr=False)
    """The secret that authenticates brokers to each other; empty if certificates protect links, or nothing does."""
    access: Access = field(default_factory=Access)
    """Who may connect, and what each client may publish and see."""

    address: str = ""
    """The address given to clients that have to move here from another broker; empty if that is the name."""
    addresses: tuple[tuple[str, str], ...] = ()
    """The same of every broker of the overlay, by name; empty if unknown, and then each broker's own word counts."""

    heartbeat_ms: int = 1_000
    """After this long without sending anything else, a connection carries a heartbeat."""
    silent_ms: int = 5_000
    """After this long without hearing anything, a connection is closed."""
    handshake_ms: int = 5_000
    """A connection that has not authenticated within this time is closed."""
    subscribe_wait_ms: int = 3_000
    """A subscription is confirmed after this time at the latest, with the pubends that have not answered as pending."""
    acknowledge_ms: int = 250
    """How long an acknowledgement that nobody asked for may wait to be sent with others."""
    credit_bytes: int = 2 * _MEBIBYTE
    """Bytes a client may publish without an acknowledgement."""
    client_outbox_bytes: int = 64 * _MEBIBYTE
    """Most data that may be queued for one client; a client that lets more wait is disconnected."""
    link_outbox_bytes: int = 64 * _MEBIBYTE
    """Most data that may be queued for one link; more is dropped."""
    control_outbox_bytes: int = 16 * _MEBIBYTE
    """Most control frames that may be queued for one connection; a peer that lets more wait is disconnected."""
    held_back_bytes: int = 128 * _MEBIBYTE
    """When this much data waits in all outboxes together, publishers get no more credit until it is less."""
    report_ms: int = 1_000
    """How often clients are told how far streams have advanced, and pubends how far clients have."""
    silence_ms: int = 1_000
    """After this long without a message, a guaranteed stream announces silence."""
    lease_ms: int = 5_000
    """How far ahead of its clock a pubend may promise ticks and silence; a restart after a crash begins after it."""
    inquiry_ms: int = 3_000
    """How long a pubend that begins a new life waits for what others remember of former ones, unless all have answered.

    With 0 it asks nobody, and trusts its store.
    """
    receive_window_ms: int = 10_000
    """How much of each stream is kept beyond its doubt horizon, in time."""
    receive_window_bytes: int = 16 * _MEBIBYTE
    """How much of each stream is kept beyond its doubt horizon, in bytes of messages."""
    cache_bytes: int = 16 * _MEBIBYTE
    """How much of each guaranteed pubend a broker caches, to answer requests from downstream."""
    catch_ups_max: int = 4
    """Catch-up streams of one pubend that run at a time; later subscriptions wait, and share the next one."""
    grace_ms: int = 60_000
    """How long a host keeps the positions of clients that vanished."""
    retain_ms: int = 300_000
    """Messages younger than this stay in the log, even if everybody has received them."""
    retain_bytes: int = 0
    """This much of a pubend's log stays, even if everybody has received it."""
    retain_bytes_max: int = 4096 * _MEBIBYTE
    """The size of a pubend's log at which the policy decides."""
    retain_policy: str = "hold"
    """``hold``: publishers wait until subscribers have caught up; ``lapse``: the oldest is dropped, with an alarm."""
    last_values_max: int = 100_000
    """Messages that each pubend with ``last_values`` keeps beyond its log; above this, the oldest are dropped."""
    last_bytes_max: int = 64 * _MEBIBYTE
    """Bytes of messages that each pubend with ``last_values`` keeps beyond its log."""
    dead_letters: str = ""
    """The pubend to which groups give up messages, anywhere in the overlay; empty for none. The same at all brokers."""
    congestion: CongestionSettings = field(default_factory=CongestionSettings)
    """How pubends follow the slowest broker, and how fast lost messages are requested again."""
    balancing: BalancingSettings = field(default_factory=BalancingSettings)
    """How load is shared with other brokers; off unless enabled."""
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    """How brokers record where messages came from and went to."""
    migration_ms: int = 30_000
    """A client that was asked to move to another broker has to arrive within this time, or counts as staying."""
    token: Plan | None = None
    """The plan of the token that walks over all brokers; None for no token. Shared by all brokers."""
    limit: LimitSettings | None = None
    """The limit on all that is published in the overlay; None if there is none, nor any heard of from other brokers."""
    connections_max: int = 10_000
    """Connections a broker accepts."""
    strangers_max: int = 256
    """Connections among them that have not authenticated; when there are more, the oldest is closed."""
    subscriptions_max: int = 1_000_000
    """Subscriptions of all its clients together."""
    durables_max: int = 100_000
    """Durable subscriptions that each pubend of this broker keeps."""
    groups_max: int = 1_000
    """Groups (work queues) of each pubend of this broker: each of them looks at every message."""
    client_durables_max: int = 1_000
    """Durable subscriptions of one client, by its name, that each pubend keeps, where clients authenticate."""
    client_connections_max: int = 1_000
    """Connections that one client, by its name, may have at this broker."""
    client_waiting_bytes_max: int = 96 * _MEBIBYTE
    """Bytes queued for one client, by its name, on all its connections; above this, the one with most is closed."""
    client_subscriptions_max: int = 10_000
    """Subscriptions that one client, by its name, may have on all its connections together."""
    client_selector_bytes_max: int = 4 * _MEBIBYTE
    """Selectors of all subscriptions of one client together; in memory each takes some twenty times as much."""
    client_effort_max: int = 20_000
    """Comparisons, operations and searches that subscriptions of one client may add to the matching of a message.

    Counts only conditions that no index answers, such as LIKE, <> or arithmetic. The default takes about ten
    milliseconds, at most.
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
            "groups_max",
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
            "last_values_max",
            "last_bytes_max",
            "migration_ms",
        ):
            if getattr(self, each) <= 0:
                raise SettingsError(f"{each} {getattr(self, each)} is not positive")
        self._check_streams()
        if self.dead_letters and not is_plain_name(self.dead_letters):
            raise SettingsError(f"dead_letters {self.dead_letters!r} is not the name of a pubend")
        if self.dead_letters in self.best_effort:
            raise SettingsError(f"dead_letters names {self.dead_letters!r}, which is best effort and has no log")
        if self.name in self.neighbours:
            raise SettingsError(f"broker {self.name} has a link to itself")

    @property
    def reached_at(self) -> str:
        """Where clients find this broker."""
        return self.address or self.name

    def _check_streams(self) -> None:
        if foreign := [name for name in self.best_effort if name not in self.pubends]:
            raise SettingsError(f"best_effort names {', '.join(foreign)}, not among the pubends of broker {self.name}")
        self._check_last_values()
        if self.lease_ms < 2 * self.silence_ms:
            raise SettingsError(f"lease_ms {self.lease_ms} is less than two silences of {self.silence_ms} ms")
        for each in ("retain_ms", "retain_bytes", "inquiry_ms"):
            if getattr(self, each) < 0:
                raise SettingsError(f"{each} {getattr(self, each)} is negative")
        if self.retain_bytes > self.retain_bytes_max:
            raise SettingsError(f"retain_bytes {self.retain_bytes} is more than the maximum {self.retain_bytes_max}")
        if self.retain_policy not in {"hold", "lapse"}:
            raise SettingsError(f"retain_policy {self.retain_policy!r} is neither 'hold' nor 'lapse'")

    def _check_last_values(self) -> None:
        named = [pubend for pubend, _ in self.last_values]
        for pubend, attribute in self.last_values:
            if named.count(pubend) > 1:
                raise SettingsError(f"last_values names pubend {pubend} twice")
            check_last_values(pubend, attribute, self.pubends, self.best_effort)


def check_last_values(pubend: str, attribute: str, pubends: Collection[str], best_effort: Collection[str]) -> None:
    """Fails unless a broker's pubend can keep last values by this attribute."""
    if pubend not in pubends:
        raise SettingsError(f"last_values names {pubend}, which is not among the broker's pubends")
    if pubend in best_effort:
        raise SettingsError(f"last_values needs a guaranteed pubend, and {pubend} is best effort")
    if not 0 < len(attribute) <= NAME_CHARS_MAX or not attribute.isprintable():
        raise SettingsError(
            f"last_values {attribute!r} of pubend {pubend} is not the name of an attribute: "
            f"1 to {NAME_CHARS_MAX} characters that can be printed"
        )


class SettingsInForce(BrokerSettings):
    """The copy that all rooms of one broker read: the only settings that ever change, and only as a whole.

    Rooms with copies of their own would keep using the old ones, and whoever adds a room would forget to pass it the
    new ones.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable

    @classmethod
    def of(cls, settings: BrokerSettings) -> Self:
        """Makes a copy that may change."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(BrokerSettings)})

    def change_to(self, settings: BrokerSettings) -> None:
        """Puts these settings in force."""
        for each in fields(BrokerSettings):
            object.__setattr__(self, each.name, getattr(settings, each.name))
