"""``penstock pin`` and ``penstock unpin``: keep a client at its broker despite balancing, or let it be moved again."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from penstock.cli.admin import ask_all
from penstock.cli.console import FAILURE, console
from penstock.live.config import load_overlay

__all__ = ["EXAMPLES", "pin", "unpin"]

EXAMPLES = """
All brokers of the file are told, at their `admin_port`, since the client may be anywhere. It lasts until a broker ends;
an application that never wants to move says so itself (`ClientSettings(pinned=True)`). Ends with 1 unless all brokers
were told.

Examples:

- `penstock pin overlay.toml ticker-7`
- `penstock unpin overlay.toml ticker-7`
"""
_ANSWERS: Final = {"broker": "left", "result": "left", "what": "left"}
_File = Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")]
_Client = Annotated[str, typer.Argument(metavar="CLIENT", help="The name of the client.")]


def pin(file: _File, client: _Client) -> None:
    """Keep a client at its broker."""
    _tell(file, "/pin", client)


def unpin(file: _File, client: _Client) -> None:
    """Let a pinned client be moved again."""
    _tell(file, "/unpin", client)


def _tell(file: str, path: str, client: str) -> None:
    overlay = load_overlay(file)
    answers = ask_all(overlay, overlay.brokers.values(), "POST", path, {"client": client})
    console.table(f"{path[1:]} {client}", _ANSWERS, ((each.name, each.result, each.reason) for each in answers))
    if any(each.result != "done" for each in answers):
        raise typer.Exit(FAILURE)
