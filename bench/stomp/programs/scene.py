"""What all programs in Python share: the server, the check, and how its outcome is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from bench.stomp.stage import Target

__all__ = ["HEADERS", "PATIENCE_S", "QUIET_S", "InapplicableError", "WrongError", "equal", "holds", "play", "unique"]

HEADERS: Final = {
    "colon": "a:b",
    "backslash": "a\\b",
    "lines": "a\nb",
    "script": "Größe 長さ",
    "number": "007",
    "empty": "",
}
PATIENCE_S: Final = 5.0
QUIET_S: Final = 0.4


class WrongError(Exception):
    """The server did something else; the text is what."""


class InapplicableError(Exception):
    """The library cannot do this; the text says why."""


def play(scenes: Mapping[str, Callable[[Target], None]]) -> None:
    """Run the check that the command line names, at the server that it describes, and print the outcome."""
    target = msgspec.json.decode(sys.argv[1], type=Target)
    state, seen = "passed", ""
    try:
        scenes[sys.argv[2]](target)
    except InapplicableError as reason:
        state, seen = "not applicable", str(reason)
    except Exception as error:  # noqa: BLE001 - libraries raise what they like, and that is an outcome
        state, seen = "failed", f"{type(error).__name__}: {error}"
    sys.stdout.write("\n" + msgspec.json.encode({"state": state, "seen": seen}).decode() + "\n")


def holds(is_so: bool, what: str) -> None:
    """Something must be so."""
    if not is_so:
        raise WrongError(f"not so: {what}")


def equal(found: object, wanted: object, what: str) -> None:
    """Two values must be equal."""
    if found != wanted:
        raise WrongError(f"{what} is {found!r}, not {wanted!r}")


def unique(prefix: str) -> str:
    """A name that no other run uses."""
    return f"{prefix}{time.time_ns():x}"
