"""Reads the parameters of congestion control from a file, and tunes a running broker (``[congestion]``, ``/tune``).

A parameter tuned at run time lasts until the broker restarts, or until a changed overlay file is applied: then the file
counts again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from penstock.congestion import CongestionError, CongestionSettings, changed, listing
from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.live.toml_table import TomlTable
from penstock.system.logs import log

__all__ = ["Tunable", "Tuning", "read_congestion", "tune", "tuned"]


class Tunable(Protocol):
    """The node that is tuned."""

    overlay: Overlay

    @property
    def name(self) -> str:
        """Its broker's name."""

    def apply(self, overlay: Overlay) -> object:
        """Apply a changed overlay; raises ``ConfigError`` if that is not possible."""


@dataclass(slots=True, frozen=True)
class Tuning:
    """The parameters of one broker before and after a change, made or only proposed; false if nothing differs."""

    before: CongestionSettings
    after: CongestionSettings

    def __bool__(self) -> bool:
        return self.before != self.after

    def lines(self) -> list[str]:
        """The changes as text, for people."""
        return [f"{name} {old} to {new}" for name, (old, new) in self._differences().items()]

    def as_dict(self) -> dict[str, Any]:
        """The changes, and all parameters with their new values, for programs."""
        parameters = [
            {"name": each.name, "value": each.value, "unit": each.unit, "help": each.help, "default": each.default}
            for each in listing(self.after)
        ]
        return {"changed": self._differences(), "parameters": parameters}

    def _differences(self) -> dict[str, tuple[Any, Any]]:
        pairs = {
            each.name: (getattr(self.before, each.name), getattr(self.after, each.name)) for each in fields(self.after)
        }
        return {name: (old, new) for name, (old, new) in pairs.items() if old != new}


def tune(node: Tunable, texts: Mapping[str, str], *, home: str = "", is_trial: bool = False) -> Tuning:
    """Tune a running broker, or only report what would change; raises ``ConfigError`` if that is not possible.

    With the name of a home, that one is tuned, whenever it runs beside this broker.
    """
    if home and home not in [each.name for each in node.overlay.candidate_for(node.name)]:
        raise ConfigError(f"broker {node.name} is no candidate for a home {home!r}")
    overlay, tuning = tuned(node.overlay, home or node.name, texts)
    if tuning and not is_trial:
        node.apply(overlay)
        log("tuned", (("broker", home or node.name), ("changes", "; ".join(tuning.lines()))))
    return tuning


def tuned(overlay: Overlay, name: str, texts: Mapping[str, str]) -> tuple[Overlay, Tuning]:
    """The overlay with changed parameters for one broker or home; raises ``ConfigError`` for invalid ones."""
    home = overlay.homes.get(name)
    # The settings of a home are the same at all its candidates.
    whole = overlay if home is None else overlay.running(home, home.candidates[0])
    before = whole.settings_for(name).congestion
    try:
        after = changed(before, texts)
    except CongestionError as error:
        raise ConfigError(str(error)) from None
    tuning = Tuning(before, after)
    if home is None:
        place = _with_congestion(overlay.place_of(name), after)
        return replace(overlay, brokers={**overlay.brokers, name: place}), tuning
    home = replace(home, place=_with_congestion(home.place, after))
    return replace(overlay, homes={**overlay.homes, name: home}), tuning


def _with_congestion(place: BrokerPlace, settings: CongestionSettings) -> BrokerPlace:
    return replace(place, tunables={**place.tunables, "congestion": settings})


def read_congestion(table: TomlTable, before: CongestionSettings) -> CongestionSettings:
    """Settings changed by a table ``[congestion]``; a profile comes first, and takes all other values with it."""
    # Read all of them, so that the table knows them as valid keys.
    values = {each.name: _value(table, each.name, str(each.type)) for each in fields(CongestionSettings)}
    texts = {key: value for key, value in values.items() if key in table}
    table.refuse_others()
    try:
        return changed(before, texts)
    except CongestionError as error:
        raise _complaint(str(error), table, texts) from None


def _value(table: TomlTable, key: str, kind: str) -> str:
    if kind == "bool":
        return str(table.flag(key, default=False))
    if kind == "int":
        return str(table.integer(key, 0))
    return str(table.number(key, 0.0)) if kind == "float" else table.text(key, "")


def _complaint(text: str, table: TomlTable, texts: Mapping[str, str]) -> ConfigError:
    """The error, located at the first key it mentions that is set here."""
    spoken_of = [word for word in re.findall(r"\w+", text) if word in texts]
    return table.error(spoken_of[0] if spoken_of else "", text)
