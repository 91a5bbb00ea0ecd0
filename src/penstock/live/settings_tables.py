"""Reads settings from two tables of an overlay file: ``[NAME]`` for all brokers, and ``[brokers.BROKER.NAME]`` for one.

Keys are the fields of the settings, and their types those of the defaults. The table for one broker takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from typing import Any, TypeVar

from penstock.live.errors import ConfigError
from penstock.live.overlay import Overlay
from penstock.live.toml_table import TomlTable
from penstock.model.errors import MisuseError

__all__ = ["read_settings", "with_settings"]

_Settings = TypeVar("_Settings")
_Reader = Callable[[TomlTable, str], Any]


def with_settings(
    overlay: Overlay,
    root: TomlTable,
    tables: Mapping[str, TomlTable],
    key: str,
    read: Callable[[TomlTable, TomlTable], Any],
) -> Overlay:
    """The overlay with the settings under a key, from the general table and each broker's own."""
    general = root.table(key)
    places = {
        name: replace(place, **{key: read(general, tables[name].table(key))}) for name, place in overlay.brokers.items()
    }
    return replace(overlay, brokers=places)


def read_settings(
    kind: type[_Settings],
    general: TomlTable,
    own: TomlTable,
    *,
    defaults: Mapping[str, Any] | None = None,
    readers: Mapping[str, _Reader] | None = None,
) -> _Settings:
    """Settings of one broker, from the general table and its own; raises ``ConfigError`` at the wrong key.

    ``defaults`` replace those of the settings, ``readers`` are for fields that are not plain values.
    """
    values = {**(defaults or {}), **_values(kind, general, readers or {}), **_values(kind, own, readers or {})}
    for table in (general, own):
        table.refuse_others()
    make: Callable[..., _Settings] = kind
    try:
        return make(**values)
    except MisuseError as error:
        raise _complaint(str(error), general, own) from None


def _values(kind: type[Any], table: TomlTable, readers: Mapping[str, _Reader]) -> dict[str, Any]:
    # Read all of them, so that the table knows them as valid keys.
    values = {
        each.name: readers[each.name](table, each.name) if each.name in readers else _value(table, each)
        for each in fields(kind)
    }
    return {key: value for key, value in values.items() if key in table}


def _value(table: TomlTable, setting: Field[Any]) -> Any:
    key, default = setting.name, setting.default
    if isinstance(default, bool):
        return table.flag(key, default=default)
    if isinstance(default, int):
        return table.integer(key, default)
    return table.number(key, default) if isinstance(default, float) else table.text(key, str(default))


def _complaint(text: str, general: TomlTable, own: TomlTable) -> ConfigError:
    """The error, located at the first key that it mentions, wherever that was set."""
    for word in re.findall(r"\w+", text):
        for table in (own, general):
            if word in table:
                return table.error(word, text)
    return general.error("", text)
