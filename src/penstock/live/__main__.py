"""Runs one broker as a process, without the command line: ``python -m penstock.live OVERLAY.TOML --name NAME``.

For programs that start brokers, as the lab does. People use ``penstock broker``, which does the same and has more
options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from penstock.live.extra import needing_server_packages
from penstock.live.signals import early

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the broker until it is stopped; returns the exit code: 0, 1 after a failure, 2 after a usage error."""
    # First of all: loading a broker takes a while, and a signal in that time must neither get lost nor kill it.
    early.install()
    parser = argparse.ArgumentParser(prog="python -m penstock.live", description="Run one broker of an overlay.")
    parser.add_argument("overlay", metavar="OVERLAY.TOML", help="the file that describes the overlay")
    parser.add_argument("--name", required=True, help="which of its brokers to run")
    wanted = parser.parse_args(arguments)
    with needing_server_packages():
        return _run(wanted.overlay, wanted.name)


def _run(overlay: str, name: str) -> int:
    from penstock.live.config import load_overlay
    from penstock.live.serving import run_broker
    from penstock.model.errors import MisuseError, PenstockError

    try:
        run_broker(load_overlay(overlay), name)
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, MisuseError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
