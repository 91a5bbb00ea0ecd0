"""The ``penstock`` command: everything users do from a shell."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["main"]

_SERVER_PACKAGES: Final = frozenset({"numpy", "prometheus_client", "rich", "starlette", "typer", "uvicorn"})
"""Packages that ``penstock[server]`` adds to the client; every command needs all of them."""


def main() -> None:
    """Run the command line to its end."""
    if sys.argv[1:2] == ["broker"]:
        # First of all: loading a broker takes a while, and a signal must neither get lost nor kill it meanwhile.
        from penstock.live.signals import early

        early.install()
    try:
        # Imported late, so that importing a single module of this package does not load the whole app.
        from penstock.cli.app import main as run

        run()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _SERVER_PACKAGES:
            raise
        sys.exit(f"error: {missing} is not installed; install it with: pip install 'penstock[server]'")
