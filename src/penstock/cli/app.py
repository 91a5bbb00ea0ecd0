"""Assembles the ``penstock`` command from one module per command, each loaded on demand.

Otherwise a broker would load everything the laboratory, the demo and the pipeline need, which would double the time
until it listens.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from penstock import __version__
from penstock.cli.console import console

__all__ = ["app", "main"]

_MARKUP: Final = "markdown"
_NAMES: Final = (
    "demo",
    "broker",
    "publish",
    "subscribe",
    "durable",
    "dead",
    "status",
    "trace",
    "top",
    "tune",
    "limit",
    "multicast",
    "match",
    "quotes",
    "overlay",
    "pubend",
    "store",
    "drain",
    "pin",
    "unpin",
    "ship",
    "token",
    "lab",
    "pipeline",
)
"""All commands, in the order in which ``--help`` lists them."""
_ELSEWHERE: Final = {"unpin": "pin"}
"""Commands whose module has another name."""
_SILENT: Final = logging.NullHandler()


class _Commands(Mapping[str, Any]):
    """The commands by name, loaded on first access."""

    def __getitem__(self, name: str) -> Any:
        if name not in _NAMES:
            raise KeyError(name)
        return _loaded(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


@cache
def _loaded(name: str) -> Any:
    """Load a command: its module has an ``app`` of subcommands, or a function named like it and its ``EXAMPLES``."""
    module = import_module(f"penstock.cli.{_ELSEWHERE.get(name, name)}")
    around = typer.Typer(rich_markup_mode=_MARKUP)
    if hasattr(module, "app"):
        around.add_typer(module.app, name=name)
    else:
        around.command(name, epilog=module.EXAMPLES)(getattr(module, name))
    return typer.main.get_group(around).commands[name]


class _GuardedGroup(TyperGroup):
    """All commands; turns Penstock's errors into messages and exit codes, wherever they were raised."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": _Commands()})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature of what it overrides
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        # Commands say themselves what is wrong; without a handler, Python would show what their clients log besides.
        logging.getLogger("penstock").addHandler(_SILENT)
        with console.guarding():
            return super().invoke(ctx)


app = typer.Typer(
    name="penstock",
    cls=_GuardedGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Content-based publish/subscribe: say in SQL what you want, and get it.",
)


def main() -> None:
    """Run the command line."""
    app()


def _print_version(*, asked: bool) -> None:
    if asked:
        console.line(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda asked: _print_version(asked=asked), is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass
