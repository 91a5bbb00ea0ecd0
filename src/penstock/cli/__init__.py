"""The command ``penstock``: all that people do from a shell."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line to its end."""
    # Imported here: who needs a single command of it should not wait for all.
    from penstock.cli.app import main as run

    run()
