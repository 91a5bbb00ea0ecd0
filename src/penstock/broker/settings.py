"""What a broker must know before it starts; units in the names, checked on construction."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.broker.access import Access
from penstock.model.errors import MisuseError

__all__ = ["BrokerSettings", "SettingsError"]

_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
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
    neighbours: tuple[str, ...] = ()
    """The brokers it has links with, whether it dials them or they dial it."""
    link_credential: str = field(default="", repr=False)
    """The secret that brokers of the overlay show each other; empty if certificates or nothing protects links."""
    access: Access = field(default_factory=Access)
    """Who may connect, and publish and see what."""

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
    connections_max: int = 10_000
    """Connections a broker accepts."""
    subscriptions_max: int = 1_000_000
    """Subscriptions of all its clients together."""

    def __post_init__(self) -> None:
        for what, name in [
            ("name", self.name),
            ("overlay", self.overlay),
            *(("pubend", each) for each in self.pubends),
        ]:
            if not name or not set(name) <= _NAME_CHARS or len(name) > 100:
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
        ):
            if getattr(self, each) <= 0:
                raise SettingsError(f"{each} {getattr(self, each)} is not positive")
        if self.name in self.neighbours:
            raise SettingsError(f"broker {self.name} has a link to itself")
