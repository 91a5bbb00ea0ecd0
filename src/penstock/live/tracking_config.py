"""Reads the tables ``[tracking]`` and ``[brokers.NAME.tracking]`` of an overlay file ([Tracking] section 4.2).

[tracking]                      # for all brokers; in [brokers.NAME.tracking] for one
strategy = "bloom"              # or "exact", or "null" for none
efpp = 1e-5                     # and whatever else `TrackingSettings` has
shape = { m = 65536, n = 2521, k = 16 }    # bits, capacity and hashes of the filters; chosen if nothing is said
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, fields, replace
from typing import Any, Final

from penstock.live.errors import ConfigError
from penstock.live.overlay import Overlay
from penstock.live.toml_table import TomlTable
from penstock.model.errors import MisuseError
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

__all__ = ["read_tracking", "with_tracking"]

_SHAPE: Final = "shape"


def with_tracking(overlay: Overlay, root: TomlTable, tables: Mapping[str, TomlTable]) -> Overlay:
    """The overlay with what its file says of tracking; ``tables`` are those of its brokers."""
    general = root.table("tracking")
    places = {
        name: replace(place, tracking=read_tracking(general, tables[name].table("tracking")))
        for name, place in overlay.brokers.items()
    }
    return replace(overlay, brokers=places)


def read_tracking(general: TomlTable, own: TomlTable) -> TrackingSettings:
    """What one broker records, by what is said of all and of this one; raises ``ConfigError``."""
    values = _values(general) | _values(own)
    for table in (general, own):
        table.refuse_others()
    try:
        return TrackingSettings(**values)
    except MisuseError as error:
        raise _complaint(str(error), general, own) from None


def _values(table: TomlTable) -> dict[str, Any]:
    # Asked for in any case, so that the table knows them as keys it may have.
    values = {each.name: _value(table, each) for each in fields(TrackingSettings)}
    return {key: value for key, value in values.items() if key in table}


def _value(table: TomlTable, setting: Field[Any]) -> Any:
    key = setting.name
    if key == _SHAPE:
        return _shape(table)
    default = setting.default
    if isinstance(default, bool):
        return table.flag(key, default=default)
    if isinstance(default, int):
        return table.integer(key, default)
    return table.number(key, default) if isinstance(default, float) else table.text(key, str(default))


def _shape(table: TomlTable) -> FilterShape | None:
    inner = table.table(_SHAPE)
    if _SHAPE not in table:
        return None
    parts = {part: inner.integer(part) for part in ("m", "n", "k")}
    inner.refuse_others()
    try:
        return FilterShape(**parts)
    except MisuseError as error:
        raise table.error(_SHAPE, str(error)) from None


def _complaint(text: str, general: TomlTable, own: TomlTable) -> ConfigError:
    """The complaint at the first key that it speaks of, wherever that was set."""
    for word in re.findall(r"\w+", text):
        for table in (own, general):
            if word in table:
                return table.error(word, text)
    return general.error("", text)
