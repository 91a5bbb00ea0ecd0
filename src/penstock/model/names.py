"""Which texts can be names: short, and without anything that would do more than be read where they are shown."""

from __future__ import annotations

import re
from typing import Final

from penstock.model.limits import PEER_NAME_CHARS_MAX

__all__ = ["is_client_name", "is_durable_name", "is_plain_name"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_DURABLE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")


def is_plain_name(text: str) -> bool:
    """Whether a broker, a pubend or an overlay can have this name."""
    return _PLAIN.fullmatch(text) is not None


def is_durable_name(text: str) -> bool:
    """Whether a durable subscription can have this name."""
    return _DURABLE.fullmatch(text) is not None


def is_client_name(text: str) -> bool:
    """Whether a client can have this name: it is shown on terminals and pages, where it must not be a command."""
    return len(text) <= PEER_NAME_CHARS_MAX and text.isprintable()
