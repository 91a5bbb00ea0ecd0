"""Says whether the machine is quiet enough to measure: other work changes figures more than any regression does."""

from __future__ import annotations

import os
from typing import Final

from penstock.cli.console import console

__all__ = ["load_before", "warning_of"]

_LOAD_MAX: Final = 0.5
"""Processes that may want a processor, on average over the last minute, before we start."""


def load_before() -> float:
    """The load of the machine before a measurement; warns if it is too high."""
    load = os.getloadavg()[0]
    if warning := warning_of(load):
        console.note(warning)
    return load


def warning_of(load: float) -> str:
    """What to tell about a load; empty if it is low."""
    if load <= _LOAD_MAX:
        return ""
    return f"the machine was busy before the start (load {load:.1f}): do not draw conclusions from these figures"
