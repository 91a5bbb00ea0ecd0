"""The command ``penstock``: all that people do from a shell."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["main"]

_SERVER_PACKAGES: Final = frozenset({"numpy", "prometheus_client", "rich", "starlette", "typer", "uvicorn"})
"""What ``penstock[server]`` adds to the client; no command does without all of them."""


def main() -> None:
    """Run the command line to its end."""
    if sys.argv[1:2] == ["broker"]:
        # Before all else: loading a broker takes a while, in which a signal must neither be lost nor kill it.
        from penstock.live.signals import early

        early.install()
    try:
        # Imported here: who needs a single command of it should not wait for all.
        from penstock.cli.app import main as run

        run()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _SERVER_PACKAGES:
            raise
        sys.exit(f"error: {missing} is not installed; install it with: pip install 'penstock[server]'")
