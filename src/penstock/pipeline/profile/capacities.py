"""Broker capacities: output bandwidth, and matching delay as a linear function of the number of subscriptions.

Ir = input rate · matching delay, Or = output bytes / bandwidth ([PADRES] section 3.2); d = a + b · n, since an index's
delay is not proportional to n (spec, Estimation). A bare number is a multiple of a reference machine.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.model.errors import MisuseError

__all__ = ["REFERENCE", "Capacity", "parse_capacities", "parse_capacity"]

_UNITS: Final = {"bps": 1 / 8, "kbps": 1e3 / 8, "mbps": 1e6 / 8, "gbps": 1e9 / 8}
_TIMES: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER: Final = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"
_FORM: Final = re.compile(
    rf"{_NUMBER}(bps|kbps|mbps|gbps)(?::{_NUMBER}(ns|us|ms|s)\+{_NUMBER}(ns|us|ms|s))?", re.IGNORECASE
)
_HINT: Final = (
    "write 4 (times the reference), 10mbps, or 10mbps:100us+2us (matching delay: base + for each subscription)"
)
_BROKERS_MAX: Final = 1_000


@dataclass(slots=True, frozen=True)
class Capacity:
    """The capacity of one broker."""

    bandwidth: float
    """Bytes per second that the broker can send."""
    delay_base_s: float
    """Matching delay without subscriptions."""
    delay_slope_s: float
    """Matching delay added by each subscription."""

    def __post_init__(self) -> None:
        if self.bandwidth <= 0 or self.delay_base_s < 0 or self.delay_slope_s < 0:
            raise MisuseError(f"invalid capacity {self}: bandwidth must be positive, delays must not be negative")

    def times(self, power: float) -> Capacity:
        """The capacity of a machine this many times as powerful."""
        if power <= 0:
            raise MisuseError(f"a broker cannot have {power:g} times the reference capacity: give a number above zero")
        return Capacity(self.bandwidth * power, self.delay_base_s / power, self.delay_slope_s / power)


REFERENCE: Final = Capacity(10e6 / 8, 100e-6, 1e-6)
"""10 Mbit/s, and 100 µs + 1 µs per subscription."""


def parse_capacities(texts: Sequence[str], reference: Capacity = REFERENCE) -> dict[str, Capacity]:
    """Parse the capacities of brokers, from a TOML file or from ``b1=2,b2=10mbps:100us+2us``.

    >>> parse_capacities(["b1=1,b2=2"], Capacity(100.0, 0.0, 0.5))["b2"]
    Capacity(bandwidth=200.0, delay_base_s=0.0, delay_slope_s=0.25)
    """
    found: dict[str, Capacity] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, separator, value = part.rpartition("=")
        given = {name.strip(): value} if separator else _of_file(Path(part))
        for broker, text in given.items():
            if not broker or broker in found:
                raise MisuseError(f"broker {broker!r} is named twice, or has no name")
            found[broker] = parse_capacity(text, reference)
    if not found:
        raise MisuseError("no broker was given; such as --capacities b1=1,b2=2")
    if len(found) > _BROKERS_MAX:
        raise MisuseError(f"{len(found)} brokers are more than the {_BROKERS_MAX} that can be planned for")
    return found


def parse_capacity(text: str, reference: Capacity = REFERENCE) -> Capacity:
    """Parse one broker's capacity as a user writes it.

    >>> parse_capacity("0.6mbps:5ms+1us")
    Capacity(bandwidth=75000.0, delay_base_s=0.005, delay_slope_s=1e-06)
    """
    text = text.strip()
    try:
        return reference.times(float(text))
    except ValueError:
        pass
    match = _FORM.fullmatch(text)
    if match is None:
        raise MisuseError(f"capacity {text!r} is not understood: {_HINT}")
    bandwidth = float(match[1]) * _UNITS[match[2].lower()]
    if match[3] is None:
        return Capacity(bandwidth, reference.delay_base_s, reference.delay_slope_s)
    base, slope = (float(match[at]) * _TIMES[match[at + 1].lower()] for at in (3, 5))
    return Capacity(bandwidth, base, slope)


def _of_file(path: Path) -> Mapping[str, str]:
    """Read a TOML file with a line per broker: ``b1 = "10mbps:100us+2us"`` or ``b1 = 2``."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MisuseError(f"cannot read capacities from {path}: {error.strerror}; {_HINT}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MisuseError(f"{path} is not TOML: {error}") from None
    for broker, value in content.items():
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise MisuseError(f"{path}: {broker} is {value!r}; {_HINT}")
    return {broker: str(value) for broker, value in content.items()}
