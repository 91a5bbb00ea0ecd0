"""Reads the settings of single pubends from an overlay file, and makes the homes of those with candidates.

[pubends.quotes]
brokers = ["pb1", "pb2"]        # the candidates, in order of preference
data = "postgresql://db1,db2/penstock"
replicas_min = 1                # optional: how many synchronous standbys must have each message
profile = "swift"               # or "calm"; lease_ms overrides it
last_values = "symbol"          # optional, for any guaranteed pubend
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from penstock.broker.candidate import LEASE_MS_MIN, LeaseSettings
from penstock.broker.settings import SettingsError, check_last_values
from penstock.congestion import CongestionSettings
from penstock.live.overlay import BrokerPlace, Database, Home, Overlay, PubendSettings, is_url, number_for
from penstock.live.toml_table import TomlTable
from penstock.model.errors import PenstockError
from penstock.model.names import is_plain_name

__all__ = ["PROFILES", "REPLICAS_MAX", "read_database", "with_pubends"]

PROFILES: Final = {"calm": LeaseSettings(), "swift": LeaseSettings(lease_ms=500)}
"""How soon another candidate takes over."""

REPLICAS_MAX: Final = 100
"""More standbys than any database has."""

_Tunables = Mapping[str, int | str | CongestionSettings]


def read_database(table: TomlTable, key: str, url: str, *, replicas_min: int) -> Database:
    """The database at a url; raises ``ConfigError`` if it is none."""
    if not is_url(url):
        raise table.error(key, "must be a url: postgresql://host1,host2/database")
    if find_spec("psycopg") is not None:
        # Only where it is used; without the driver the broker does not start anyway.
        from penstock.live.postgres.connecting import check_url

        try:
            check_url(url)
        except PenstockError as error:
            raise table.error(key, str(error)) from None
    return Database(url, replicas_min)


def with_pubends(overlay: Overlay, tables: Mapping[str, TomlTable], *, tunables: _Tunables) -> Overlay:
    """The overlay with the settings of single pubends; ``tunables`` are those of all brokers."""
    homes: dict[str, Home] = {}
    views: dict[str, list[tuple[str, str]]] = {}
    hosts = {pubend: place for place in overlay.brokers.values() for pubend in place.pubends}
    for pubend, table in tables.items():
        settings = _settings(table)
        if settings.brokers:
            home = _home(overlay, pubend, table, settings, tunables)
            if pubend in hosts:
                raise table.error("brokers", f"broker {hosts[pubend].name} has {pubend} among its own pubends")
            _check_new(home, table, overlay, homes)
            homes[home.name] = home
        elif pubend not in hosts:
            raise table.error("", f"no broker has a pubend {pubend!r}; there are: {', '.join(hosts) or 'none'}")
        if settings.last_values:
            place = homes[Home.name_for(pubend)].place if settings.brokers else hosts[pubend]
            try:
                check_last_values(pubend, settings.last_values, place.pubends, place.best_effort)
            except SettingsError as error:
                raise table.error("last_values", str(error)) from None
            views.setdefault(place.name, []).append((pubend, settings.last_values))
    brokers = {name: _viewed(place, views) for name, place in overlay.brokers.items()}
    homes = {name: replace(home, place=_viewed(home.place, views)) for name, home in homes.items()}
    return replace(overlay, brokers=brokers, homes=homes)


def _settings(table: TomlTable) -> PubendSettings:
    settings = PubendSettings(
        last_values=table.text("last_values", ""),
        brokers=table.texts("brokers"),
        data=table.text("data", ""),
        replicas_min=table.integer("replicas_min", 0, high=REPLICAS_MAX),
        profile=table.text("profile", "calm"),
        lease_ms=table.integer("lease_ms", 0),
    )
    table.refuse_others()
    if not settings.brokers:
        for key in ("brokers", "data", "replicas_min", "profile", "lease_ms"):
            if key in table:
                raise table.error(key, "is for a pubend with candidates (brokers = [...])")
    return settings


def _home(overlay: Overlay, pubend: str, table: TomlTable, settings: PubendSettings, tunables: _Tunables) -> Home:
    if len(set(settings.brokers)) < len(settings.brokers):
        raise table.error("brokers", "names a broker twice")
    for name in settings.brokers:
        if name not in overlay.brokers:
            raise table.error("brokers", f"there is no broker {name!r}; there are: {', '.join(overlay.brokers)}")
    if not settings.data:
        raise table.error("data", "must name the database that all candidates share: postgresql://host1,host2/database")
    database = read_database(table, "data", settings.data, replicas_min=settings.replicas_min)
    if settings.profile not in PROFILES:
        raise table.error("profile", f"{settings.profile!r} is none of: {', '.join(PROFILES)}")
    lease = PROFILES[settings.profile]
    if settings.lease_ms:
        if settings.lease_ms < LEASE_MS_MIN:
            raise table.error("lease_ms", f"{settings.lease_ms} is less than {LEASE_MS_MIN}")
        lease = LeaseSettings(settings.lease_ms)
    # Nobody who holds a home waits for an answer longer than for the end of the lease.
    database = replace(database, answer_ms=min(database.answer_ms, 2 * lease.lease_ms))
    name = Home.name_for(pubend)
    if not is_plain_name(name):
        raise table.error("", f"{pubend!r} is too long, or no name, for a pubend with candidates")
    place = BrokerPlace(
        name=name,
        number=number_for(name),
        port=0,
        pubends=(pubend,),
        database=database,
        tunables=tunables,
        where=f"{overlay.source}:{table.line()}",
    )
    return Home(place, settings.brokers, lease)


def _check_new(home: Home, table: TomlTable, overlay: Overlay, homes: Mapping[str, Home]) -> None:
    if home.name in overlay.brokers:
        raise table.error("brokers", f"the home of this pubend is called {home.name}, as is a broker; rename that one")
    taken = {place.number: place.name for place in overlay.brokers.values()}
    taken |= {each.place.number: each.name for each in homes.values()}
    if home.place.number in taken:
        other = taken[home.place.number]
        raise table.error("", f"its home and broker {other} have the same number; give that one another (number)")


def _viewed(place: BrokerPlace, views: Mapping[str, list[tuple[str, str]]]) -> BrokerPlace:
    return replace(place, last_values=tuple(views.get(place.name, ())))
