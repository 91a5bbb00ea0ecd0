"""Describes an overlay: brokers, the links between them, and who may do what; the same for all brokers.

A link (a, b) means that a dials b. Addresses are those that neighbours and clients dial; a broker may bind another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from penstock.ajil.settings import LimitSettings
from penstock.balancing.settings import BalancingSettings
from penstock.broker.access import Access
from penstock.broker.candidate import LeaseSettings
from penstock.broker.settings import BrokerSettings
from penstock.congestion import CongestionSettings
from penstock.live.errors import ConfigError, ExposedError, StorageError
from penstock.live.shipping.arrow import require_pyarrow
from penstock.live.shipping.settings import ShipSettings
from penstock.live.tls import TlsFiles
from penstock.stomp.settings import StompSettings
from penstock.token.settings import Plan
from penstock.tracking.settings import TrackingSettings

__all__ = [
    "BrokerPlace",
    "Database",
    "Home",
    "Overlay",
    "PubendSettings",
    "Security",
    "is_loopback",
    "is_url",
    "number_for",
]

_LOOPBACK = "127.0.0.1"
_HOME: Final = ".home"
"""What the name of a home has after that of its pubend."""
_HOMES: Final = "homes"
"""The folder in a candidate's data folder that has what homes leave there."""
_SCHEMES: Final = ("postgresql://", "postgres://")


def is_url(data: str) -> bool:
    """Whether this names a database, and not a folder."""
    return data.startswith(_SCHEMES)


def number_for(name: str) -> int:
    """A broker's number, made from its name: unlike a place in the file, it stays when others come and go."""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest()) or 1


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
class Database:
    """A PostgreSQL database that keeps a broker's durable data."""

    url: str = field(repr=False)
    """Where it is, as libpq takes it, with all hosts that may be the primary; it may have a password."""
    replicas_min: int = 0
    """How many synchronous standbys must have each commit: publishers wait while the database promises fewer."""
    answer_ms: int = 10_000
    """How long the database may take to answer; then the connection is given up and made anew."""


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
    """The folder for durable data; None for a broker that keeps nothing in a folder."""
    database: Database | None = None
    """The database for durable data in place of the folder, which then has only the ledger of shipping and tokens."""
    data_bytes_max: int = 0
    """The size of the data at which publishers have to wait, as on a full disk; 0 for no limit but the disk."""
    tunables: Mapping[str, int | str | CongestionSettings] = field(default_factory=dict)
    """Settings of the broker that differ from the defaults, by name."""
    balancing: BalancingSettings = field(default_factory=BalancingSettings)
    """How it shares load with others."""
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    """How it records where messages came from and went to; not at all without a data folder."""
    stomp: StompSettings = field(default_factory=StompSettings)
    """How it serves STOMP clients; not at all without a port for them."""
    tls: TlsFiles | None = None
    where: str = field(default="", compare=False)
    """File and line, for error messages."""

    @property
    def address(self) -> str:
        """The URL at which clients reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'penstocks' if self.tls is not None else 'penstock'}://{host}:{self.port}"

    @property
    def keeps_data(self) -> bool:
        """Whether it has anywhere to keep durable data."""
        return self.data is not None or self.database is not None

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
    brokers: tuple[str, ...] = ()
    """The candidates, in order of preference: whichever of them runs takes the pubend. It is in no broker's list."""
    data: str = ""
    """The database that keeps it, if it has candidates: ``postgresql://host1,host2/name``."""
    replicas_min: int = 0
    """How many synchronous standbys must have each message before it is acknowledged."""
    profile: str = "calm"
    """How soon another candidate takes over: ``calm`` (leases of 2 s) or ``swift`` (500 ms)."""
    lease_ms: int = 0
    """How long a holder keeps the pubend without renewing its lease; 0 for what the profile says."""


@dataclass(slots=True, frozen=True)
class Home:
    """The broker of a pubend with candidates, one of which runs it."""

    place: BrokerPlace
    """What holds for it wherever it runs; it has no address of its own."""
    candidates: tuple[str, ...]
    """In order of preference."""
    lease: LeaseSettings

    @property
    def name(self) -> str:
        """Its name as a broker."""
        return self.place.name

    @property
    def pubend(self) -> str:
        """The pubend whose home it is."""
        return self.place.pubends[0]

    @property
    def database(self) -> Database:
        """Where its data is."""
        assert self.place.database is not None, f"{self.name} has no database"
        return self.place.database

    @staticmethod
    def name_for(pubend: str) -> str:
        """The name of the home of a pubend."""
        return f"{pubend}{_HOME}"


@dataclass(slots=True, frozen=True)
class Overlay:
    """All brokers and links, and the rules they share."""

    name: str
    brokers: Mapping[str, BrokerPlace]
    links: tuple[tuple[str, str], ...] = ()
    homes: Mapping[str, Home] = field(default_factory=dict)
    """The homes of pubends with candidates, by their names as brokers."""
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
        if name in self.homes and name not in self.brokers:
            candidates = ", ".join(self.homes[name].candidates)
            raise ConfigError(f"{name} is the home of a pubend and runs beside one of its candidates: {candidates}")
        if name not in self.brokers:
            raise ConfigError(f"no broker {name!r} in overlay {self.name}; there are: {', '.join(self.brokers)}")
        return self.brokers[name]

    def neighbours_of(self, name: str) -> tuple[str, ...]:
        """The brokers it has links with, in the order of the links; homes come last, wherever they run."""
        linked = [right if left == name else left for left, right in self.links if name in (left, right)]
        homes = [each.name for each in self.homes.values() if name in each.candidates]
        return tuple(dict.fromkeys((*linked, *homes)))

    def candidate_for(self, name: str) -> tuple[Home, ...]:
        """The homes that this broker may run."""
        return tuple(home for home in self.homes.values() if name in home.candidates)

    def running(self, home: Home, at: str) -> Overlay:
        """The overlay as a home sees it that runs at one of its candidates: with a link to that one alone.

        It ships its own records. What it has shipped is remembered at each candidate by itself: one that takes the home
        over ships again what the home still keeps, and readers of the lake take the newest row of each key.
        """
        assert at in home.candidates, f"{at} is no candidate for {home.name}"
        beside = self.brokers[at]
        data = None if beside.data is None else beside.data / _HOMES / home.name
        # It shows the certificate of the broker that it runs beside: both are one process.
        place = replace(home.place, data=data, tls=beside.tls)
        links = (*self.links, (home.name, at))
        return replace(self, brokers={**self.brokers, home.name: place}, links=links)

    def dialled_by(self, name: str) -> tuple[BrokerPlace, ...]:
        """The neighbours that this broker has to dial."""
        return tuple(self.brokers[right] for left, right in self.links if left == name)

    def settings_for(self, name: str) -> BrokerSettings:
        """The settings of one broker; raises ``SettingsError`` if they cannot work."""
        place = self.place_of(name)
        tunables: dict[str, Any] = dict(place.tunables)
        if name in self.homes:
            # Whoever held it before may just have died, and cannot answer.
            tunables.setdefault("inquiry_ms", self.homes[name].lease.inquiry_ms)
        return BrokerSettings(
            name=place.name,
            overlay=self.name,
            number=place.number,
            pubends=place.pubends,
            best_effort=place.best_effort,
            last_values=place.last_values,
            all_last_values=tuple(each for other in self._places() for each in other.last_values),
            neighbours=self.neighbours_of(name),
            members=tuple(dict.fromkeys((*self.brokers, *self.homes))),
            homes=tuple(self.homes),
            link_credential=self.security.link_token,
            # With mutual TLS certificates count, even if ``access`` was made without them.
            access=replace(self.access, certificates=self.access.certificates or self.security.mutual),
            address=place.address,
            # Clients never go to a home, which listens nowhere.
            addresses=tuple((each.name, each.address) for each in self.brokers.values() if each.name not in self.homes),
            token=self.token,
            limit=self.limit,
            balancing=place.balancing,
            tracking=place.tracking if place.keeps_data else TrackingSettings(strategy="null"),
            **tunables,
        )

    def _places(self) -> tuple[BrokerPlace, ...]:
        """All brokers, the homes among them, each once."""
        homes = {home.name: home.place for home in self.homes.values()}
        return tuple({**self.brokers, **homes}.values())

    def pubends(self) -> dict[str, tuple[str, bool]]:
        """All pubends of the overlay: the broker of each, and whether it guarantees delivery."""
        return {
            pubend: (place.name, pubend not in place.best_effort)
            for place in self._places()
            for pubend in place.pubends
        }

    def islands(self) -> list[list[str]]:
        """The parts of the overlay that no link connects with each other; one if all is well."""
        islands: list[list[str]] = []
        for name in self.brokers:
            if not any(name in each for each in islands):
                found = {name: None}
                for each in (reached := [name]):
                    neighbours = [other for other in self.neighbours_of(each) if other not in self.homes]
                    fresh = [other for other in neighbours if other not in found]
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
        """Raises ``StorageError`` if the broker has guaranteed pubends, but nowhere to keep them."""
        place = self.place_of(name)
        if (place.database is not None or self.candidate_for(name)) and find_spec("psycopg") is None:
            at = f"{place.where}: " if place.where else ""
            raise StorageError(
                f"{at}broker {name} keeps data in PostgreSQL, which needs psycopg: pip install 'penstock[postgres]'"
            )
        guaranteed = [pubend for pubend in place.pubends if pubend not in place.best_effort]
        if guaranteed and not place.keeps_data:
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
