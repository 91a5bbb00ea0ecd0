"""Rules for names: short, and without characters that would have an effect where they are displayed."""

from __future__ import annotations

import re
from typing import Final

from penstock.model.limits import PEER_NAME_CHARS_MAX

__all__ = ["DURABLE_NAME", "PLAIN_NAME", "is_client_name", "is_durable_name", "is_plain_name"]

PLAIN_NAME: Final = r"[A-Za-z0-9_.-]{1,100}"
"""Pattern of the name of a broker, a pubend or an overlay."""
DURABLE_NAME: Final = r"[A-Za-z0-9_.:/-]{1,200}"
"""Pattern of the name of a durable subscription."""
_PLAIN: Final = re.compile(PLAIN_NAME)
_DURABLE: Final = re.compile(DURABLE_NAME)


def is_plain_name(text: str) -> bool:
    """Whether a broker, a pubend or an overlay can have this name."""
    return _PLAIN.fullmatch(text) is not None


def is_durable_name(text: str) -> bool:
    """Whether a durable subscription can have this name."""
    return _DURABLE.fullmatch(text) is not None


def is_client_name(text: str) -> bool:
    """Whether a client can have this name: terminals and pages display it, where it must not act as a command."""
    return len(text) <= PEER_NAME_CHARS_MAX and text.isprintable()
