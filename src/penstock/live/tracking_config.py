"""Reads the tables ``[tracking]`` and ``[brokers.NAME.tracking]`` of an overlay file ([Tracking] section 4.2).

[tracking]                      # for all brokers; in [brokers.NAME.tracking] for one
strategy = "bloom"              # or "exact", or "null" for none
efpp = 1e-5                     # and whatever else `TrackingSettings` has
shape = { m = 65536, n = 2521, k = 16 }    # bits, capacity and hashes of the filters; chosen if nothing is said
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.live.overlay import Overlay
from penstock.live.settings_tables import read_settings, with_settings
from penstock.live.toml_table import TomlTable
from penstock.model.errors import MisuseError
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

__all__ = ["read_tracking", "with_tracking"]


def with_tracking(overlay: Overlay, root: TomlTable, tables: Mapping[str, TomlTable]) -> Overlay:
    """The overlay with what its file says of tracking; ``tables`` are those of its brokers."""
    return with_settings(overlay, root, tables, "tracking", read_tracking)


def read_tracking(general: TomlTable, own: TomlTable) -> TrackingSettings:
    """What one broker records, by what is said of all and of this one; raises ``ConfigError``."""
    return read_settings(TrackingSettings, general, own, readers={"shape": _shape})


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
