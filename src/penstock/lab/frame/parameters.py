"""The parameters an experiment declares, and their values, parsed from ``key=value`` and checked before a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.lab.frame.errors import ParameterError

__all__ = ["Parameter", "ParameterValue", "parameter_values"]

ParameterValue: TypeAlias = int | float | str | bool

_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(slots=True, frozen=True)
class Parameter:
    """A setting of an experiment; its type is the type of its default."""

    name: str
    """The name in ``--set name=value``."""
    default: ParameterValue
    """The value of a full run."""
    help: str
    """A short description, with the unit."""
    quick: ParameterValue | None = None
    """The value of a quick run; None for the default."""
    minimum: float | None = None
    """The smallest number allowed."""
    maximum: float | None = None
    """The largest number allowed."""

    def __post_init__(self) -> None:
        assert self.quick is None or type(self.quick) is type(self.default), f"{self.name}: quick is of another type"

    @property
    def type_name(self) -> str:
        """The type in words."""
        return {bool: "true or false", int: "integer", float: "number", str: "text"}[type(self.default)]

    def value_for(self, *, quick: bool) -> ParameterValue:
        """The value if the user sets none."""
        return self.quick if quick and self.quick is not None else self.default

    def parsed(self, text: str) -> ParameterValue:
        """Parse and check a value."""
        try:
            value = self._converted(text)
        except (ValueError, KeyError):
            raise ParameterError(f"parameter {self.name}: {text!r} is not of type {self.type_name}") from None
        self._check_range(value)
        return value

    def _converted(self, text: str) -> ParameterValue:
        if isinstance(self.default, bool):
            return _TRUTH[text.strip().lower()]
        return type(self.default)(text)

    def _check_range(self, value: ParameterValue) -> None:
        if isinstance(value, str):
            return
        if not math.isfinite(value):
            raise ParameterError(f"parameter {self.name}: {value} is not finite")
        if self.minimum is not None and value < self.minimum:
            raise ParameterError(f"parameter {self.name}: {value:,} is below the minimum of {self.minimum:,}")
        if self.maximum is not None and value > self.maximum:
            raise ParameterError(f"parameter {self.name}: {value:,} is above the maximum of {self.maximum:,}")


def parameter_values(
    declared: Iterable[Parameter], settings: Iterable[str], *, quick: bool = False
) -> dict[str, ParameterValue]:
    """The value of every declared parameter: from the last setting that names it, or else its default."""
    known = {parameter.name: parameter for parameter in declared}
    values = {name: parameter.value_for(quick=quick) for name, parameter in known.items()}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ParameterError(f"{setting!r} is not of the form key=value; {_listed(known)}")
        if name.strip() not in known:
            raise ParameterError(f"no parameter {name.strip()!r}; {_listed(known)}")
        values[name.strip()] = known[name.strip()].parsed(text)
    return values


def _listed(known: Mapping[str, Parameter]) -> str:
    if not known:
        return "this experiment has no parameters"
    return "known parameters: " + ", ".join(f"{each.name} ({each.type_name})" for each in known.values())
