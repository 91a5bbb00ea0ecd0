"""Reads ``overlay.toml``, the one description of all brokers and links; errors name file, line and key.

overlay = "demo"
[security]                      # optional
link_token = "..."              # brokers prove to each other that they have it
admin_token = "..."             # bearer token of the admin API
[security.tls]                  # optional; {name} stands for the broker's name, paths are relative to this file
ca = "ca.pem"
certificate = "{name}.pem"
key = "{name}.key"
mutual = true                   # clients and brokers must show certificates
[defaults]                      # any tunable of BrokerSettings, for all brokers
heartbeat_ms = 1000
service = "guaranteed"          # or "best-effort": for the pubends of brokers that do not set it
[congestion]                    # any parameter of CongestionSettings, for all brokers
profile = "paper"               # or "swift": gives the other parameters their defaults
[brokers.pb1]
port = 7001                     # host, bind, admin_host, admin_port, certificate, key, service, tunables
number = 1                      # part of message identifiers; derived from the name by default
pubends = ["pb1.a", "pb1.b"]
best_effort = ["pb1.b"]         # or set service for all of them
data = "data/{name}"            # the data folder; this is the default; or postgresql://host1,host2/database
replicas_min = 1                # with a database: how many synchronous standbys must have each commit; 0 by default
data_bytes_max = 0              # the size at which publishers have to wait; 0: limited by the disk only
[brokers.pb1.congestion]        # parameters for one broker
sample_ms = 500
[ship]                          # optional: brokers ship their records to a lake, see docs/lake.md
lake = "lake"                   # its folder, relative to this file
when = "interval"               # or "token": when the wandering token comes by, see docs/token.md
interval_ms = 60000             # also bytes_max, turn_ms (per turn), retain_ms (of shipped filters at brokers, 0: keep)
[token]                         # optional: a token walks over all brokers; variant, op_ms, min_ms, skip_ms
op_ms = 4000                    # the budget of one operation
[tracking]                      # any setting of TrackingSettings, for all brokers; [brokers.pb1.tracking] for one
strategy = "bloom"              # or "exact", or "null" for none
[limit]                         # optional: one limit on all publishing, see `live/limiting.py`
rate = "600KB"                  # bytes per second
[balancing]                     # any setting of BalancingSettings, for all brokers; [brokers.pb1.balancing] for one
local_ratio_trigger = 0.1
[stomp]                         # any setting of StompSettings, for all brokers; [brokers.pb1.stomp] for one
port = 61613                    # also websocket_port
[pubends."pb1.a"]               # optional: settings of one pubend, wherever it is hosted
last_values = "symbol"          # keeps the newest message of each value of this attribute beyond its log
[pubends.orders]                # a pubend with candidates, see `live/homes_config.py`
brokers = ["pb1", "ib1"]
data = "postgresql://db1,db2/penstock"
[[links]]
between = ["pb1", "ib1"]        # the first dials the second
[[clients]]
name = "feed-1"
token = "..."
[[access]]                      # the first rule that matches decides
clients = "feed-%"
publish = "class = 'STOCK'"     # or true, or false
subscribe = false
trace = false                   # or true: may ask where messages came from and who received them
durable = "feed/%"              # durable names that these clients share; others belong to the client that made them
status = false                  # or true: the status of brokers shows them the names of other clients
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Final

from penstock.broker.access import Access, Rule
from penstock.broker.settings import BrokerSettings, SettingsError
from penstock.congestion import CongestionSettings
from penstock.live.errors import ConfigError
from penstock.live.homes_config import REPLICAS_MAX, read_database, with_pubends
from penstock.live.limiting import with_limit
from penstock.live.mechanism_config import with_balancing, with_stomp, with_token, with_tracking
from penstock.live.overlay import BrokerPlace, Database, Overlay, Security, is_url, number_for
from penstock.live.shipping.settings import INTERVAL, VISIT, ShipSettings
from penstock.live.tls import TlsFiles
from penstock.live.toml_table import TomlTable, read_toml
from penstock.live.tuning import read_congestion
from penstock.protocol.control import NAMES_MAX
from penstock.selectors.errors import SelectorError
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["BEST_EFFORT", "GUARANTEED", "TEXT_TUNABLES", "TUNABLES", "load_overlay"]

TUNABLES: Final = tuple(each.name for each in fields(BrokerSettings) if each.type == "int" and each.name != "number")
"""Numeric settings that a file may have, for all brokers or for one."""
TEXT_TUNABLES: Final = ("retain_policy", "dead_letters")
"""Text settings that a file may have, for all brokers or for one."""
GUARANTEED: Final = "guaranteed"
BEST_EFFORT: Final = "best-effort"

_PORT_MAX: Final = 65_535


def load_overlay(path: Path | str) -> Overlay:
    """Load the overlay that a file describes; raises ``ConfigError`` if anything is wrong with it."""
    path = Path(path)
    root = read_toml(path)
    name = root.text("overlay")
    security, ship = root.table("security"), root.table("ship")
    defaults = root.table("defaults")
    has_tls, tls = "tls" in security, security.table("tls")
    mutual = tls.flag("mutual", default=False)
    tables = root.named_tables("brokers")
    reading = _Brokers(path, tables, tls if has_tls else None, defaults, root.table("congestion"))
    brokers = reading.read()
    overlay = Overlay(
        name=name,
        brokers=brokers,
        links=_links(root.tables("links"), tables),
        security=Security(security.text("link_token", ""), security.text("admin_token", ""), mutual),
        access=_access(root.tables("clients"), root.tables("access"), certificates=mutual),
        ship=_ship(ship, path) if "ship" in root else None,
        source=path,
        digest=root.digest,
    )
    overlay = with_pubends(overlay, root.named_tables("pubends"), tunables=reading.general)
    overlay = with_balancing(with_tracking(overlay, root, tables), root, tables)
    overlay = with_stomp(overlay, root, tables)
    overlay = with_limit(with_token(overlay, root), root)
    if not tables:
        raise root.error("brokers", "there is no broker; add a table [brokers.NAME]")
    for each in (root, security, ship, defaults, tls, *tables.values()):
        each.refuse_others()
    _check_counts(overlay, root)
    _check_settings(overlay, root, defaults, tables)
    _check_dead_letters(overlay, defaults, tables)
    return overlay


class _Brokers:
    """Reads the tables of brokers, and checks that no two claim the same number, port, pubend or data folder."""

    def __init__(
        self,
        path: Path,
        tables: dict[str, TomlTable],
        tls: TomlTable | None,
        defaults: TomlTable,
        congestion: TomlTable,
    ) -> None:
        self._path = path
        self._tables = tables
        self._tls = tls
        self._congestion = read_congestion(congestion, CongestionSettings())
        self._tunables: dict[str, int | str | CongestionSettings] = {**_tunables(defaults)}
        self._service = _service(defaults, GUARANTEED)
        self._taken: dict[tuple[str, object], str] = {}

    @property
    def general(self) -> dict[str, int | str | CongestionSettings]:
        """The tunables that hold for all brokers."""
        is_usual = self._congestion == CongestionSettings()
        return self._tunables if is_usual else {**self._tunables, "congestion": self._congestion}

    def read(self) -> dict[str, BrokerPlace]:
        return {name: self._place(name, table) for name, table in self._tables.items()}

    def _place(self, name: str, table: TomlTable) -> BrokerPlace:
        data = table.text("data", "")
        place = BrokerPlace(
            name=name,
            number=table.integer("number", number_for(name), low=1, high=2**32 - 1),
            port=table.integer("port", low=0, high=_PORT_MAX),
            host=table.text("host", "127.0.0.1"),
            bind=table.text("bind", ""),
            admin_host=table.text("admin_host", "127.0.0.1"),
            admin_port=table.integer("admin_port", 0, low=0, high=_PORT_MAX),
            pubends=table.texts("pubends"),
            best_effort=self._best_effort(table),
            data=self._file("data/{name}" if is_url(data) else data or "data/{name}", name),
            database=self._database(table, data),
            data_bytes_max=table.integer("data_bytes_max", 0),
            tunables=self._tunables | _tunables(table) | self._congestion_of(table),
            tls=self._tls_files(name, table),
            where=f"{self._path}:{table.line()}",
        )
        self._claim(table, "number", place.number, name)
        if place.port:
            self._claim(table, "port", (place.listens_at, place.port), name)
        if place.admin_port:
            self._claim(table, "admin_port", (place.admin_host, place.admin_port), name)
        for pubend in place.pubends:
            self._claim(table, "pubends", pubend, name)
        # Brokers on different machines may well use the same path.
        self._claim(table, "data", (place.host, place.data), name)
        return place

    def _database(self, table: TomlTable, data: str) -> Database | None:
        replicas_min = table.integer("replicas_min", 0, high=REPLICAS_MAX)
        if "://" in data and not is_url(data):
            raise table.error("data", "is neither a folder nor a url of PostgreSQL (postgresql://host1,host2/database)")
        if is_url(data):
            if "data_bytes_max" in table:
                raise table.error("data_bytes_max", "is for a data folder: a database has limits of its own")
            return read_database(table, "data", data, replicas_min=replicas_min)
        if "replicas_min" in table:
            raise table.error("replicas_min", 'needs a database (data = "postgresql://..."), which has standbys')
        return None

    def _congestion_of(self, table: TomlTable) -> dict[str, CongestionSettings]:
        settings = read_congestion(table.table("congestion"), self._congestion)
        return {} if settings == CongestionSettings() else {"congestion": settings}

    def _best_effort(self, table: TomlTable) -> tuple[str, ...]:
        named, service = table.texts("best_effort"), _service(table, self._service)
        if "best_effort" not in table:
            return table.texts("pubends") if service == BEST_EFFORT else ()
        if "service" in table:
            raise table.error("best_effort", "cannot be combined with service, which sets all pubends")
        return named

    def _claim(self, table: TomlTable, key: str, value: object, name: str) -> None:
        claim = ("port" if key == "admin_port" else key, value)
        if claim in self._taken:
            shown = ":".join(map(str, value)) if isinstance(value, tuple) else value
            raise table.error(key, f"{shown} is taken by broker {self._taken[claim]} already")
        self._taken[claim] = name

    def _tls_files(self, name: str, table: TomlTable) -> TlsFiles | None:
        own = {key: table.text(key, "") for key in ("certificate", "key")}
        if self._tls is None:
            for key, value in own.items():
                if value:
                    raise table.error(key, "needs a table [security.tls] with the authority (ca)")
            return None
        tls, files = self._tls, {}
        for key in ("certificate", "key"):
            files[key] = self._file(own[key] or tls.text(key), name)
        return TlsFiles(
            self._file(tls.text("ca"), name), files["certificate"], files["key"], tls.flag("mutual", default=False)
        )

    def _file(self, text: str, name: str) -> Path:
        return self._path.parent / text.replace("{name}", name)


def _ship(table: TomlTable, path: Path) -> ShipSettings:
    usual = ShipSettings(path.parent / table.text("lake"))
    when = table.text("when", INTERVAL)
    if when not in (INTERVAL, VISIT):
        raise table.error("when", f"{when!r} is neither {INTERVAL!r} nor {VISIT!r}")
    return ShipSettings(
        lake=usual.lake,
        interval_ms=table.integer("interval_ms", usual.interval_ms, low=100),
        bytes_max=table.integer("bytes_max", usual.bytes_max, low=1),
        turn_ms=table.integer("turn_ms", usual.turn_ms, low=1),
        when=when,
        retain_ms=table.integer("retain_ms", usual.retain_ms),
    )


def _service(table: TomlTable, default: str) -> str:
    service = table.text("service", default)
    if service not in (GUARANTEED, BEST_EFFORT):
        raise table.error("service", f"{service!r} is neither {GUARANTEED!r} nor {BEST_EFFORT!r}")
    return service


def _tunables(table: TomlTable) -> dict[str, int | str]:
    # Read all of them, so that the table knows them as valid keys.
    values: dict[str, int | str] = {key: table.integer(key, 0) for key in TUNABLES}
    values |= {key: table.text(key, "") for key in TEXT_TUNABLES}
    return {key: value for key, value in values.items() if key in table}


def _links(links: list[TomlTable], brokers: dict[str, TomlTable]) -> tuple[tuple[str, str], ...]:
    found: dict[frozenset[str], tuple[str, str]] = {}
    for table in links:
        ends = table.texts("between")
        if len(ends) != 2:
            raise table.error("between", f"must name two brokers, not {len(ends)}")
        for end in ends:
            if end not in brokers:
                raise table.error("between", f"there is no broker {end!r}; there are: {', '.join(brokers)}")
        if ends[0] == ends[1]:
            raise table.error("between", f"broker {ends[0]} cannot have a link to itself")
        if frozenset(ends) in found:
            raise table.error("between", f"the link between {ends[0]} and {ends[1]} is listed twice")
        found[frozenset(ends)] = ends[0], ends[1]
        table.refuse_others()
    return tuple(found.values())


def _access(clients: list[TomlTable], rules: list[TomlTable], *, certificates: bool) -> Access:
    tokens: dict[str, str] = {}
    for table in clients:
        name, token = table.text("name"), table.text("token")
        if name in tokens:
            raise table.error("name", f"client {name} is listed twice")
        tokens[name] = token
        table.refuse_others()
    read = tuple(map(_rule, rules))
    return Access(tokens, read, certificates) if read else Access(tokens, certificates=certificates)


def _rule(table: TomlTable) -> Rule:
    publish, subscribe = _selector(table, "publish"), _selector(table, "subscribe")
    rule = Rule(
        table.text("clients"),
        publish,
        subscribe,
        trace=table.flag("trace", default=False),
        durable=table.text("durable", ""),
        status=table.flag("status", default=False),
    )
    table.refuse_others()
    return rule


def _selector(table: TomlTable, key: str) -> Selector | None:
    value = table.text_or_flag(key, default=False)
    if isinstance(value, bool):
        return EVERYTHING if value else None
    try:
        return Selector.parse(value)
    except SelectorError as error:
        raise table.error(key, f"not a selector: {error}") from None


def _check_counts(overlay: Overlay, root: TomlTable) -> None:
    """Raise if the names do not fit into the one frame in which brokers and clients exchange them."""
    counts = {"brokers": len(overlay.brokers) + len(overlay.homes), "pubends": len(overlay.pubends())}
    for what, count in counts.items():
        if count > NAMES_MAX:
            raise root.error("brokers", f"{count:,} {what} are over the limit of {NAMES_MAX:,}")


def _check_settings(overlay: Overlay, root: TomlTable, defaults: TomlTable, tables: dict[str, TomlTable]) -> None:
    for name, table in tables.items():
        try:
            overlay.settings_for(name)
        except SettingsError as error:
            raise _settings_complaint(str(error), root, defaults, table) from None
    for home in overlay.homes.values():
        try:
            overlay.running(home, home.candidates[0]).settings_for(home.name)
        except SettingsError as error:
            # It has no table of its own: all its settings are general ones.
            raise _settings_complaint(str(error), root, defaults, defaults) from None


def _check_dead_letters(overlay: Overlay, defaults: TomlTable, tables: dict[str, TomlTable]) -> None:
    """Raise if dead letters are to go where nobody can keep them."""
    known = {pubend: is_guaranteed for pubend, (_, is_guaranteed) in overlay.pubends().items()}
    for name, table in tables.items():
        pubend = overlay.settings_for(name).dead_letters
        place = table if "dead_letters" in table else defaults
        if pubend and pubend not in known:
            there_are = ", ".join(each for each, is_guaranteed in known.items() if is_guaranteed) or "none"
            raise place.error("dead_letters", f"there is no guaranteed pubend {pubend!r}; there are: {there_are}")
        if pubend and not known[pubend]:
            raise place.error(
                "dead_letters", f"pubend {pubend!r} is best effort: it has no log, which dead letters need"
            )
        if overlay.brokers[name].stomp.deliveries_max and not pubend:
            raise place.error(
                "", f"stomp.deliveries_max of broker {name} needs a pubend for dead letters: dead_letters"
            )


def _settings_complaint(text: str, root: TomlTable, defaults: TomlTable, table: TomlTable) -> ConfigError:
    """The error, located at the key that it mentions, wherever that was set."""
    if text.startswith("overlay "):
        return root.error("overlay", text)
    words = re.findall(r"\w+", text)
    for key in (*TUNABLES, *TEXT_TUNABLES, "best_effort", "pubends"):
        if key in words or key.removesuffix("s") in words:
            for place in (table, defaults):
                if key in place:
                    return place.error(key, text)
    return table.error("", text)
