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

from collections.abc import Mapping

from penstock.balancing.settings import BalancingSettings
from penstock.live.overlay import Overlay
from penstock.live.settings_tables import read_settings, with_settings
from penstock.live.toml_table import TomlTable

__all__ = ["read_balancing", "with_balancing"]


def with_balancing(overlay: Overlay, root: TomlTable, tables: Mapping[str, TomlTable]) -> Overlay:
    """The overlay with what its file says of balancing; ``tables`` are those of its brokers."""
    is_on = "balancing" in root
    return with_settings(
        overlay, root, tables, "balancing", lambda general, own: read_balancing(general, own, is_on=is_on)
    )


def read_balancing(general: TomlTable, own: TomlTable, *, is_on: bool) -> BalancingSettings:
    """How one broker balances itself, by what is said of all and of this one; raises ``ConfigError``."""
    return read_settings(BalancingSettings, general, own, defaults={"is_on": is_on})
