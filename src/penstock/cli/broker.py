"""``penstock broker``: runs one broker of an overlay until it is stopped."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.live.config import load_overlay
from penstock.live.serving import run_broker

__all__ = ["EXAMPLES", "LogLevel", "broker"]

EXAMPLES = """
Ends in order, and with 0, on SIGTERM and on Ctrl-C. Rereads its file on SIGHUP (see `penstock overlay`). The file
describes all brokers and links once:

    overlay = "demo"
    [brokers.pb1]
    port = 7001
    pubends = ["quotes"]
    [brokers.sb1]
    port = 7002
    [[links]]
    between = ["pb1", "sb1"]

Examples:

- `penstock broker overlay.toml --name pb1`
- `penstock broker overlay.toml --name sb1 --log-json --log-level warning 2>> sb1.log`
"""


class LogLevel(StrEnum):
    """Log levels, the most verbose first."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def broker(
    overlay: Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")],
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="Which of its brokers to run.")],
    log_json: Annotated[bool, typer.Option("--log-json", help="Log JSON lines instead of text.")] = False,
    log_level: Annotated[LogLevel, typer.Option(help="How much to log, on standard error.")] = LogLevel.INFO,
) -> None:
    """Run one broker of an overlay until SIGTERM or Ctrl-C."""
    run_broker(load_overlay(overlay), name, log_level=log_level.value, log_json=log_json)
