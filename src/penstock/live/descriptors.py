"""The file descriptors of a process: how many it may have, and how many connections it can afford with them."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["RESERVE", "affordable", "raise_limit"]

RESERVE: Final = 128
"""Descriptors that connections of clients never get: for the store, links, the admin port, shipping and files."""
_OPEN_FOLDERS: Final = ("/proc/self/fd", "/dev/fd")
_UNLIMITED: Final = 1 << 20
"""What counts as no limit."""


def raise_limit() -> None:
    """Let this process have as many descriptors as it is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems say that there is no limit, and have one.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def affordable() -> int:
    """How many connections can be open beside what is open now and the reserve; one at least."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _UNLIMITED if soft == resource.RLIM_INFINITY else soft
    return max(1, limit - _open_now() - RESERVE)


def _open_now() -> int:
    for folder in _OPEN_FOLDERS:
        with suppress(OSError):
            return len(list(Path(folder).iterdir()))
    return RESERVE
