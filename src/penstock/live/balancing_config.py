"""Reads the tables ``[balancing]`` and ``[brokers.NAME.balancing]`` of an overlay file ([PADRES]).

[balancing]                     # for all brokers: with this table they balance themselves
local_ratio_trigger = 0.1       # and whatever else `BalancingSettings` has
[brokers.NAME.balancing]        # for one
output_bandwidth = 75000        # bytes per second
cluster = "west"                # follows the links if nothing is said
role = "edge"                   # the same
is_on = false                   # for one that does not take part
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, fields, replace
from typing import Any

from penstock.balancing.settings import BalancingSettings
from penstock.live.errors import ConfigError
from penstock.live.overlay import Overlay
from penstock.live.toml_table import TomlTable
from penstock.model.errors import MisuseError

__all__ = ["read_balancing", "with_balancing"]


def with_balancing(overlay: Overlay, root: TomlTable, tables: Mapping[str, TomlTable]) -> Overlay:
    """The overlay with what its file says of balancing; ``tables`` are those of its brokers."""
    general = root.table("balancing")
    is_on = "balancing" in root
    places = {
        name: replace(place, balancing=read_balancing(general, tables[name].table("balancing"), is_on=is_on))
        for name, place in overlay.brokers.items()
    }
    return replace(overlay, brokers=places)


def read_balancing(general: TomlTable, own: TomlTable, *, is_on: bool) -> BalancingSettings:
    """How one broker balances itself, by what is said of all and of this one; raises ``ConfigError``."""
    values = {"is_on": is_on, **_values(general), **_values(own)}
    for table in (general, own):
        table.refuse_others()
    try:
        return BalancingSettings(**values)
    except MisuseError as error:
        raise _complaint(str(error), general, own) from None


def _values(table: TomlTable) -> dict[str, Any]:
    # Asked for in any case, so that the table knows them as keys it may have.
    values = {each.name: _value(table, each) for each in fields(BalancingSettings)}
    return {key: value for key, value in values.items() if key in table}


def _value(table: TomlTable, setting: Field[Any]) -> Any:
    key, default = setting.name, setting.default
    if isinstance(default, bool):
        return table.flag(key, default=default)
    if isinstance(default, int):
        return table.integer(key, default)
    return table.number(key, default) if isinstance(default, float) else table.text(key, str(default))


def _complaint(text: str, general: TomlTable, own: TomlTable) -> ConfigError:
    """The complaint at the first key that it speaks of, wherever that was set."""
    for word in re.findall(r"\w+", text):
        for table in (own, general):
            if word in table:
                return table.error(word, text)
    return general.error("", text)
