"""Tells users which extra to install when a package that a broker needs is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["needing_server_packages"]

_SERVER_PACKAGES: Final = frozenset(
    {"numpy", "prometheus_client", "rich", "starlette", "typer", "uvicorn", "websockets"}
)
"""Packages that ``penstock[server]`` adds to the client; brokers and commands need them."""


@contextmanager
def needing_server_packages() -> Iterator[None]:
    """Exit with code 1 and one line that names the extra, if one of its packages cannot be imported inside."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _SERVER_PACKAGES:
            raise
        sys.exit(f"error: {missing} is not installed; install it with: pip install 'penstock[server]'")
