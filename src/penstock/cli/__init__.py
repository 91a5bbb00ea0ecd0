"""The command ``penstock``: all that people do from a shell."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line to its end."""
    if sys.argv[1:2] == ["broker"]:
        # Before all else: loading a broker takes a while, in which a signal must neither be lost nor kill it.
        from penstock.live.signals import early

        early.install()
    # Imported here: who needs a single command of it should not wait for all.
    from penstock.cli.app import main as run

    run()
