"""The ``penstock`` command: everything users do from a shell."""

from __future__ import annotations

import gc
import sys
from typing import Final

__all__ = ["main"]

_SELDOM: Final = (50_000, 20, 50)
"""How often commands look for garbage; a broker, which runs for long, has its own way."""


def main() -> None:
    """Run the command line to its end."""
    if sys.argv[1:2] == ["broker"]:
        # First of all: loading a broker takes a while, and a signal must neither get lost nor kill it meanwhile.
        from penstock.live.signals import early

        early.install()
    else:
        # Loading a command makes objects that stay; to look for garbage among them takes a twentieth of the time.
        gc.set_threshold(*_SELDOM)
    from penstock.live.extra import needing_server_packages

    with needing_server_packages():
        # Imported late, so that importing a single module of this package does not load the whole app.
        from penstock.cli.app import main as run

        run()
