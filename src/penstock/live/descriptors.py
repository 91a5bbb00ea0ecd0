"""Raises the limit of file descriptors, and tells how many connections the process can afford."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["RESERVE", "affordable", "raise_limit"]

RESERVE: Final = 128
"""Descriptors that client connections never get: for the store, links, the admin port, shipping and files."""
_OPEN_FOLDERS: Final = ("/proc/self/fd", "/dev/fd")
_UNLIMITED: Final = 1 << 20
"""The limit to assume where there is none."""


def raise_limit() -> None:
    """Raise the descriptor limit of this process as far as it is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems report no limit, but have one.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def affordable() -> int:
    """How many connections fit beside the descriptors open now and the reserve; at least one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _UNLIMITED if soft == resource.RLIM_INFINITY else soft
    return max(1, limit - _open_now() - RESERVE)


def _open_now() -> int:
    for folder in _OPEN_FOLDERS:
        with suppress(OSError):
            return len(list(Path(folder).iterdir()))
    return RESERVE
