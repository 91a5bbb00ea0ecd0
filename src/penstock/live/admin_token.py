"""The token of a broker's admin API: the one of the overlay file, or one that the broker makes when it first starts.

The made one is in the file ``admin.token`` beside the store, for the broker's own user only. So commands on the same
machine and of the same user find it by themselves, and nobody else does: not other users, and no page in a browser.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Final

from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace, Overlay

__all__ = ["FILE_NAME", "find_token", "make_token"]

FILE_NAME: Final = "admin.token"
_TOKEN_BYTES: Final = 32
_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


def make_token(overlay: Overlay, place: BrokerPlace) -> str:
    """For the broker, which has its data folder to itself; empty if it has none, and the file names no token either.

    Raises ``ConfigError`` if the token cannot be kept.
    """
    if overlay.security.admin_token or place.data is None:
        return overlay.security.admin_token
    path = place.data / FILE_NAME
    try:
        if found := _read(path):
            path.chmod(0o600)
            return found
        # What a crash left half written, or somebody emptied, is no token.
        path.unlink(missing_ok=True)
        token = secrets.token_hex(_TOKEN_BYTES)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
    except OSError as error:
        raise ConfigError(f"the admin token cannot be kept in {path}: {error.strerror or error}") from None
    return token


def find_token(overlay: Overlay, place: BrokerPlace) -> str:
    """For commands; raises ``ConfigError``, which says what to do, if there is none to be found."""
    if overlay.security.admin_token:
        return overlay.security.admin_token
    if place.data is None:
        raise ConfigError("it has no data folder for an admin token; set [security] admin_token")
    path = place.data / FILE_NAME
    try:
        token = _read(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror or error}); {_ADVICE}") from None
    if not token:
        raise ConfigError(f"there is no token in {path}; {_ADVICE}")
    return token


_ADVICE: Final = (
    "run this as the user of the broker, on its machine, after it has started; or set [security] admin_token"
)


def _read(path: Path) -> str:
    """The token in a file; empty if there is none in it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(1_000).decode("ascii", errors="replace").strip()
    return text if _PATTERN.fullmatch(text) else ""
