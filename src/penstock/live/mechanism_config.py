"""Reads the tables of an overlay file that configure the token, balancing, tracking and STOMP.

[token]                         # a token walks over all brokers ([Token] 4.1)
variant = "swift"               # or "paper"
op_ms = 4000                    # budget of one operation (Δop); by default that of shipping, if brokers ship by token
min_ms = 0                      # least time between two operations of a broker (Δmin); 0: as their number allows
skip_ms = 0                     # how long the token stays where nothing is due (Δskip); 0: a quarter of op_ms
[balancing]                     # for all brokers: with this table they balance themselves ([PADRES])
local_ratio_trigger = 0.1       # or any other field of `BalancingSettings`
[brokers.NAME.balancing]        # for one broker
output_bandwidth = 75000        # bytes per second
cluster = "west"                # default: by the links
role = "edge"                   # default: by the links
is_on = false                   # this broker does not take part
[tracking]                      # for all brokers; in [brokers.NAME.tracking] for one ([Tracking] section 4.2)
strategy = "bloom"              # or "exact", or "null" for none
efpp = 1e-5                     # or any other field of `TrackingSettings`
shape = { m = 65536, n = 2521, k = 16 }    # bits, capacity and hashes of the filters; chosen by default
[stomp]                         # for all brokers; in [brokers.NAME.stomp] for one
port = 61613                    # or any other field of `StompSettings`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.balancing.settings import BalancingSettings
from penstock.live.overlay import Overlay
from penstock.live.settings_tables import read_settings, with_settings
from penstock.live.shipping.settings import VISIT
from penstock.live.toml_table import TomlTable
from penstock.model.errors import MisuseError
from penstock.stomp.settings import StompSettings
from penstock.token.settings import SWIFT, Plan, TokenError
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

__all__ = ["read_balancing", "read_tracking", "with_balancing", "with_stomp", "with_token", "with_tracking"]


def with_token(overlay: Overlay, root: TomlTable) -> Overlay:
    """The overlay with the token settings of its file; there is a token, too, if brokers ship by token."""
    table, ship = root.table("token"), overlay.ship
    by_token = ship if ship is not None and ship.when == VISIT else None
    op_ms = table.integer("op_ms", by_token.turn_ms if by_token is not None else 4_000, low=1)
    min_ms = table.integer("min_ms", max(by_token.interval_ms, op_ms) if by_token is not None else 0)
    skip_ms, variant = table.integer("skip_ms", 0), table.text("variant", SWIFT)
    table.refuse_others()
    if "token" not in root and by_token is None:
        return overlay
    try:
        return replace(overlay, token=Plan(op_ms, min_ms, skip_ms, variant))
    except TokenError as error:
        key = next((each for each in ("variant", "skip_ms", "min_ms", "op_ms") if each in table), "")
        raise (table if "token" in root else root).error(key, str(error)) from None


def with_balancing(overlay: Overlay, root: TomlTable, tables: Mapping[str, TomlTable]) -> Overlay:
    """The overlay with the balancing settings of its file; ``tables`` are the tables of its brokers."""
    is_on = "balancing" in root
    return with_settings(
        overlay, root, tables, "balancing", lambda general, own: read_balancing(general, own, is_on=is_on)
    )


def read_balancing(general: TomlTable, own: TomlTable, *, is_on: bool) -> BalancingSettings:
    """Balancing settings of one broker, from the general table and its own; raises ``ConfigError``."""
    return read_settings(BalancingSettings, general, own, defaults={"is_on": is_on})


def with_tracking(overlay: Overlay, root: TomlTable, tables: Mapping[str, TomlTable]) -> Overlay:
    """The overlay with the tracking settings of its file; ``tables`` are the tables of its brokers."""
    overlay = with_settings(overlay, root, tables, "tracking", read_tracking)
    general = root.table("tracking")
    tracking = read_tracking(general, general)
    homes = {name: replace(home, place=replace(home.place, tracking=tracking)) for name, home in overlay.homes.items()}
    return replace(overlay, homes=homes)


def read_tracking(general: TomlTable, own: TomlTable) -> TrackingSettings:
    """Tracking settings of one broker, from the general table and its own; raises ``ConfigError``."""
    return read_settings(TrackingSettings, general, own, readers={"shape": _shape})


def with_stomp(overlay: Overlay, root: TomlTable, tables: Mapping[str, TomlTable]) -> Overlay:
    """The overlay with the STOMP settings of its file; ``tables`` are the tables of its brokers."""
    return with_settings(
        overlay, root, tables, "stomp", lambda general, own: read_settings(StompSettings, general, own)
    )


def _shape(table: TomlTable, key: str) -> FilterShape | None:
    inner = table.table(key)
    if key not in table:
        return None
    parts = {part: inner.integer(part) for part in ("m", "n", "k")}
    inner.refuse_others()
    try:
        return FilterShape(**parts)
    except MisuseError as error:
        raise table.error(key, str(error)) from None
