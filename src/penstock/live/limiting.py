"""Reads the limit on all publishing from an overlay file, and sets it in a running broker (``[limit]``, ``/limit``).

[limit]                         # optional; `penstock limit set` makes one at run time
rate = "600KB"                  # bytes per second of all publishers together
packets = 5000                  # messages per second; set one of the two, or both
attribute = "topic"             # the attribute whose value is the group of a message
policy = "global"               # or any other field of `Aup`: alpha, beta, report_fraction, epoch_ms, mode, ...
priorities = { cards = 0 }      # by group: its share of a cut, 0 to be exempt
version = 1                     # the highest version wins, whether heard from others or read here

A limit set at run time has a higher version than the one in force, and reaches all brokers, also those that start
later; it is forgotten when all brokers stop. Applying the file again has an effect only with a higher version.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

import msgspec

from penstock.ajil import Aup, AupError, parse_amount
from penstock.ajil.settings import LimitSettings
from penstock.live.errors import ConfigError
from penstock.live.overlay import Overlay
from penstock.live.toml_table import TomlTable
from penstock.live.tuning import Tunable
from penstock.model.errors import plainly
from penstock.system.logs import log

__all__ = ["FILE_NAMES_OTHERWISE", "read_limit", "set_limit", "with_limit"]

FILE_NAMES_OTHERWISE: Final = ("limit_bytes_s", "limit_packets_s", "priorities", "author")
"""Fields of a policy that a file names differently, or not at all."""


def with_limit(overlay: Overlay, root: TomlTable) -> Overlay:
    """The overlay with the limit of its file."""
    return replace(overlay, limit=read_limit(root.table("limit")) if "limit" in root else None)


def read_limit(table: TomlTable) -> LimitSettings:
    """The limit in a table ``[limit]``; raises ``ConfigError``."""
    values: dict[str, Any] = {}
    for each in fields(Aup):
        if each.name not in FILE_NAMES_OTHERWISE:
            value = _value(table, each.name, str(each.type))
            if each.name in table:
                values[each.name] = value
    rate, packets = table.text("rate", ""), table.number("packets", 0.0)
    attribute = table.text("attribute", LimitSettings().attribute)
    priorities = table.table("priorities")
    table.refuse_others()
    try:
        values["limit_bytes_s"] = parse_amount(rate) if rate else None
        values["limit_packets_s"] = packets or None
        values["priorities"] = {key: priorities.number(key, 1.0) for key in priorities.keys()}  # noqa: SIM118
        return LimitSettings(Aup(**{"version": 1, "author": "file", **values}), attribute)
    except AupError as error:
        words = {"not an amount": "rate", "priority": "priorities", **{key: key for key in (*values, "attribute")}}
        spoken_of = [key for word, key in words.items() if word in str(error) and key in table]
        raise table.error(spoken_of[0] if spoken_of else "", str(error)) from None


def _value(table: TomlTable, key: str, kind: str) -> Any:
    if kind == "int":
        return table.integer(key, 0)
    return table.text(key, "") if kind == "str" else table.number(key, 0.0)


def set_limit(node: Tunable, text: str) -> Aup:
    """Apply a policy, given as JSON, to a running broker; raises ``ConfigError`` if that is not possible."""
    try:
        values = msgspec.json.decode(text, type=dict[str, Any])
        aup = Aup(**values)
    except (msgspec.DecodeError, AupError, TypeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"no policy: {plainly(error)}") from None
    overlay = node.overlay
    settings = LimitSettings(aup, (overlay.limit or LimitSettings()).attribute)
    node.apply(replace(overlay, limit=settings))
    log("limit-set", (("broker", node.name), ("policy", aup.describe()), ("version", aup.version)))
    return aup
