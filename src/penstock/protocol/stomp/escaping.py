r"""Undoes the escapes in names and values of headers: 1.0 has none, 1.1 ``\n``, ``\c`` and ``\\``, 1.2 also ``\r``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.protocol.stomp.errors import StompError, shown
from penstock.protocol.stomp.frames import Version

__all__ = ["UNESCAPED_COMMANDS", "unescaped", "unescaped_where_defined"]

UNESCAPED_COMMANDS: Final = frozenset(("CONNECT", "CONNECTED"))
"""Frames that no version escapes, since they are sent before both sides know the version."""

_OF_1_1: Final = {"\\\\": "\\", "\\n": "\n", "\\c": ":"}
_ESCAPES: Final[Mapping[Version, Mapping[str, str]]] = {
    Version.V1_0: {},
    Version.V1_1: _OF_1_1,
    Version.V1_2: {**_OF_1_1, "\\r": "\r"},
}
"""What each escape stands for, by version."""

_ESCAPE: Final = re.compile(r"\\.?", re.DOTALL)


def unescaped(text: str, version: Version, *, header: str) -> str:
    """The name or value behind its escapes; raises ``StompError`` if one is not defined in this version."""
    escapes = _ESCAPES[version]
    try:
        return _ESCAPE.sub(lambda found: escapes[found[0]], text)
    except KeyError as error:
        raise StompError(f"STOMP {version} has no escape {shown(error.args[0])}", header) from None


def unescaped_where_defined(text: str, version: Version) -> str:
    """The same, but what is no escape of this version stays as it is."""
    escapes = _ESCAPES[version]
    return _ESCAPE.sub(lambda found: escapes.get(found[0], found[0]), text)
