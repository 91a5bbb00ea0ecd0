"""Changing parameters of congestion control by name at run time, and listing them (``penstock tune``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from penstock.congestion.settings import CongestionError, CongestionSettings, SettingValue

__all__ = ["Parameter", "changed", "listing"]

_TRUTH: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_TYPE_NAMES: Final = {"bool": "on or off", "int": "an integer", "float": "a number", "str": "text"}


@dataclass(slots=True, frozen=True)
class Parameter:
    """One parameter as it is shown to people."""

    name: str
    value: SettingValue
    unit: str
    """Empty if it has none."""
    help: str
    default: SettingValue
    """Its value in the profile that the settings come from."""


def changed(settings: CongestionSettings, texts: Mapping[str, str]) -> CongestionSettings:
    """The settings with some values replaced; a new profile is applied first, and resets all but pdcc and sdcc."""
    rest = dict(texts)
    if "profile" in rest:
        settings = CongestionSettings.of_profile(rest.pop("profile"), pdcc=settings.pdcc, sdcc=settings.sdcc)
    types = {each.name: str(each.type) for each in fields(settings)}
    values: dict[str, Any] = {}
    for name, text in rest.items():
        if name not in types:
            raise CongestionError(f"no parameter {name!r}, only {', '.join(types)}")
        values[name] = _parsed(name, text.strip(), types[name])
    return replace(settings, **values)


def listing(settings: CongestionSettings) -> list[Parameter]:
    """All parameters, in order."""
    defaults = CongestionSettings.of_profile(settings.profile)
    return [
        Parameter(
            each.name,
            getattr(settings, each.name),
            each.metadata["unit"],
            each.metadata["help"],
            getattr(defaults, each.name),
        )
        for each in fields(settings)
    ]


def _parsed(name: str, text: str, kind: str) -> SettingValue:
    try:
        if kind == "bool":
            return _TRUTH[text.lower()]
        if kind == "str":
            return text
        return int(text) if kind == "int" else float(text)
    except (KeyError, ValueError):
        raise CongestionError(f"{name} is {text!r}, must be {_TYPE_NAMES[kind]}") from None
