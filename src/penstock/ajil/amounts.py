"""The two units that can be limited, bytes and packets, and how people write amounts of them ([Ajil] section 2).

Beyond the paper, which speaks of KBps only: both can be limited, independently.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.ajil.errors import AupError

__all__ = ["Floats", "Indices", "Unit", "amount_text", "parse_amount"]

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmg]i?)?b?(?:ps|/s)?", re.IGNORECASE | re.ASCII)


class Unit(IntEnum):
    """The unit that is counted, and its index in arrays that hold both."""

    BYTES = 0
    PACKETS = 1

    @property
    def words(self) -> str:
        """The unit as people read it."""
        return "packets/s" if self is Unit.PACKETS else "bytes/s"


def parse_amount(text: str) -> float:
    """Parses an amount per second such as ``600KB``, ``600 KBps``, ``1.5MiB/s`` or ``600000``."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise AupError(f"{text!r} is not an amount; write for example 600KB, 1.5MB/s or 600000")
    return float(found[1]) * _FACTORS[(found[2] or "").lower()]


def amount_text(amount: float, unit: Unit) -> str:
    """An amount per second as people read it: ``600 KB/s``, ``50 packets/s``."""
    if unit is Unit.PACKETS:
        return f"{amount:,.4g} packets/s"
    for name, factor in (("GB/s", 10**9), ("MB/s", 10**6), ("KB/s", 10**3)):
        if amount >= factor:
            return f"{amount / factor:.4g} {name}"
    return f"{amount:.4g} B/s"
