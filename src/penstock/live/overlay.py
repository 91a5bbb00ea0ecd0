"""Describes an overlay: brokers, the links between them, and who may do what; the same for all brokers.

A link (a, b) means that a dials b. Addresses are those that neighbours and clients dial; a broker may bind another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from penstock.ajil.settings import LimitSettings
from penstock.balancing.settings import BalancingSettings
from penstock.broker.access import Access
from penstock.broker.settings import BrokerSettings
from penstock.congestion import CongestionSettings
from penstock.live.errors import ConfigError, ExposedError, StorageError
from penstock.live.shipping.arrow import require_pyarrow
from penstock.live.shipping.settings import ShipSettings
from penstock.live.tls import TlsFiles
from penstock.token.settings import Plan
from penstock.tracking.settings import TrackingSettings

__all__ = ["BrokerPlace", "Overlay", "PubendSettings", "Security", "is_loopback"]

_LOOPBACK = "127.0.0.1"


@dataclass(slots=True, frozen=True)
class Security:
    """Security settings of the overlay as a whole."""

    link_token: str = field(default="", repr=False)
    """The secret with which brokers authenticate each other; they prove to have it, and never send it."""
    admin_token: str = field(default="", repr=False)
    """The bearer token that the admin API requires; must be set where the API does not bind to loopback."""
    mutual: bool = False
    """Whether clients and brokers authenticate with certificates."""


@dataclass(slots=True, frozen=True)
class BrokerPlace:
    """Where one broker runs, and its own settings."""

    name: str
    number: int
    port: int
    """The port on which it listens; 0 lets the system choose."""
    host: str = _LOOPBACK
    """The host that others dial."""
    bind: str = ""
    """The address on which it listens, if not the host."""
    admin_host: str = _LOOPBACK
    admin_port: int = 0
    """Where metrics, health and status are served; 0 for nowhere."""
    pubends: tuple[str, ...] = ()
    best_effort: tuple[str, ...] = ()
    """The pubends without guaranteed delivery, which need no data folder."""
    last_values: tuple[tuple[str, str], ...] = ()
    """The pubends that keep last values beyond their logs, each with the attribute whose values are the keys."""
    data: Path | None = None
    """The folder for durable data; None for a broker that keeps nothing."""
    data_bytes_max: int = 0
    """The size of the data at which publishers have to wait, as on a full disk; 0 for no limit but the disk."""
    tunables: Mapping[str, int | str | CongestionSettings] = field(default_factory=dict)
    """Settings of the broker that differ from the defaults, by name."""
    balancing: BalancingSettings = field(default_factory=BalancingSettings)
    """How it shares load with others."""
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    """How it records where messages came from and went to; not at all without a data folder."""
    tls: TlsFiles | None = None
    where: str = field(default="", compare=False)
    """File and line, for error messages."""

    @property
    def address(self) -> str:
        """The URL at which clients reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'penstocks' if self.tls is not None else 'penstock'}://{host}:{self.port}"

    @property
    def listens_at(self) -> str:
        """The address it binds."""
        return self.bind or self.host


@dataclass(slots=True, frozen=True)
class PubendSettings:
    """The settings of one pubend, in a table of its own."""

    last_values: str = ""
    """The attribute by whose values the newest messages are kept beyond the log; empty for none.

    For guaranteed pubends; a change needs a restart of the pubend's broker.
    """


@dataclass(slots=True, frozen=True)
class Overlay:
    """All brokers and links, and the rules they share."""

    name: str
    brokers: Mapping[str, BrokerPlace]
    links: tuple[tuple[str, str], ...] = ()
    security: Security = field(default_factory=Security)
    access: Access = field(default_factory=Access)
    ship: ShipSettings | None = None
    """How brokers ship their records to a lake; None if they do not."""
    token: Plan | None = None
    """The settings of the token that wanders between the brokers; None if there is none."""
    limit: LimitSettings | None = None
    """The limit on all publishing; None if there is none."""
    source: Path | None = field(default=None, compare=False)
    """The file from which it was read."""
    digest: str = field(default="", compare=False)
    """SHA-256 of the file's content, to compare two copies."""

    def place_of(self, name: str) -> BrokerPlace:
        """The broker of this name; raises ``ConfigError`` if there is none."""
        if name not in self.brokers:
            raise ConfigError(f"no broker {name!r} in overlay {self.name}; there are: {', '.join(self.brokers)}")
        return self.brokers[name]

    def neighbours_of(self, name: str) -> tuple[str, ...]:
        """The brokers it has links with, in the order of the links."""
        return tuple(right if left == name else left for left, right in self.links if name in (left, right))

    def dialled_by(self, name: str) -> tuple[BrokerPlace, ...]:
        """The neighbours that this broker has to dial."""
        return tuple(self.brokers[right] for left, right in self.links if left == name)

    def settings_for(self, name: str) -> BrokerSettings:
        """The settings of one broker; raises ``SettingsError`` if they cannot work."""
        place = self.place_of(name)
        tunables: dict[str, Any] = dict(place.tunables)
        return BrokerSettings(
            name=place.name,
            overlay=self.name,
            number=place.number,
            pubends=place.pubends,
            best_effort=place.best_effort,
            last_values=place.last_values,
            all_last_values=tuple(each for other in self.brokers.values() for each in other.last_values),
            neighbours=self.neighbours_of(name),
            members=tuple(self.brokers),
            link_credential=self.security.link_token,
            # With mutual TLS certificates count, even if ``access`` was made without them.
            access=replace(self.access, certificates=self.access.certificates or self.security.mutual),
            address=place.address,
            addresses=tuple((each.name, each.address) for each in self.brokers.values()),
            token=self.token,
            limit=self.limit,
            balancing=place.balancing,
            tracking=place.tracking if place.data is not None else TrackingSettings(strategy="null"),
            **tunables,
        )

    def islands(self) -> list[list[str]]:
        """The parts of the overlay that no link connects with each other; one if all is well."""
        islands: list[list[str]] = []
        for name in self.brokers:
            if not any(name in each for each in islands):
                found = {name: None}
                for each in (reached := [name]):
                    fresh = [other for other in self.neighbours_of(each) if other not in found]
                    found.update(dict.fromkeys(fresh))
                    reached += fresh
                islands.append(list(found))
        return islands

    def check(self, name: str) -> None:
        """Raises ``ConfigError`` if the broker must not start like this, for one of the reasons below."""
        self.check_exposure(name)
        self.check_storage(name)
        self.check_shipping(name)

    def check_storage(self, name: str) -> None:
        """Raises ``StorageError`` if the broker has guaranteed pubends, but no data folder."""
        place = self.place_of(name)
        guaranteed = [pubend for pubend in place.pubends if pubend not in place.best_effort]
        if guaranteed and place.data is None:
            at = f"{place.where}: " if place.where else ""
            raise StorageError(
                f"{at}broker {name} guarantees delivery from {', '.join(guaranteed)}, but has no data folder to keep "
                "messages in; give it one (data), or name these pubends as best effort (best_effort)"
            )

    def check_shipping(self, name: str) -> None:
        """Raises ``ConfigError`` if the broker is to ship to a lake, but cannot."""
        if self.ship is not None:
            place = self.place_of(name)
            who = f"{place.where}: broker {name}" if place.where else f"broker {name}"
            if place.data is None:
                raise StorageError(f"{who} ships to a lake ([ship] lake), but has no data folder to remember that in")
            require_pyarrow(who)

    def check_exposure(self, name: str) -> None:
        """Raises ``ExposedError`` if the broker would let anybody in from beyond loopback, or contrary to its file."""
        place = self.place_of(name)
        who = f"{place.where}: broker {name}" if place.where else f"broker {name}"
        reach = "" if is_loopback(place.listens_at) else f" listen at {place.listens_at}, beyond loopback, and"
        if self.access.is_open and (reach or self.access.has_rules):
            rules = "" if not self.access.has_rules else ", who could claim any name of the access rules ([[access]])"
            raise ExposedError(
                f"{who} would{reach} let anybody in{rules}; name clients with tokens ([[clients]] name, token), "
                f"or ask for certificates ([security.tls] with mutual = true), or {_otherwise(reach, '[[access]]')}"
            )
        is_closed = bool(reach) or not self.access.is_open
        if is_closed and self.neighbours_of(name) and not self.security.link_token and not self.security.mutual:
            raise ExposedError(
                f"{who} would{reach} let anybody in as a broker, who reads and forges everything; "
                "set [security] link_token, or ask for certificates ([security.tls] with mutual = true), "
                f"or {_otherwise(reach, '[[clients]]')}"
            )
        if place.admin_port and not is_loopback(place.admin_host) and not self.security.admin_token:
            raise ExposedError(
                f"{who} would serve its admin API at {place.admin_host}, beyond loopback, where commands cannot find "
                "the token that it makes for itself; set [security] admin_token, or leave admin_host at 127.0.0.1"
            )


def _otherwise(reach: str, tables: str) -> str:
    return "bind to 127.0.0.1" if reach else f"leave out {tables}"


def is_loopback(host: str) -> bool:
    """Whether the address can be reached from this machine only; a name other than ``localhost`` is not trusted."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
