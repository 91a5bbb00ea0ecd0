"""Assembles the ``penstock`` command from one module per command."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from penstock import __version__
from penstock.cli import (
    broker,
    demo,
    drain,
    durable,
    lab,
    limit,
    match,
    multicast,
    overlay,
    pin,
    pipeline,
    publish,
    quotes,
    ship,
    status,
    subscribe,
    token,
    top,
    trace,
    tune,
)
from penstock.cli.console import console

__all__ = ["app", "main"]


class _GuardedGroup(TyperGroup):
    """A group of commands that turns Penstock's errors into messages and exit codes, wherever they were raised."""

    def invoke(self, ctx: Any) -> Any:
        with console.guarding():
            return super().invoke(ctx)


app = typer.Typer(
    name="penstock",
    cls=_GuardedGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Content-based publish/subscribe: say in SQL what you want, and get it.",
)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("broker", epilog=broker.EXAMPLES)(broker.broker)
app.command("publish", epilog=publish.EXAMPLES)(publish.publish)
app.command("subscribe", epilog=subscribe.EXAMPLES)(subscribe.subscribe)
app.add_typer(durable.app, name="durable")
app.command("status", epilog=status.EXAMPLES)(status.status)
app.command("trace", epilog=trace.EXAMPLES)(trace.trace)
app.command("top", epilog=top.EXAMPLES)(top.top)
app.command("tune", epilog=tune.EXAMPLES)(tune.tune)
app.add_typer(limit.app, name="limit")
app.add_typer(multicast.app, name="multicast")
app.command("match", epilog=match.EXAMPLES)(match.match)
app.command("quotes", epilog=quotes.EXAMPLES)(quotes.quotes)
app.add_typer(overlay.app, name="overlay")
app.command("drain", epilog=drain.EXAMPLES)(drain.drain)
app.command("pin", epilog=pin.EXAMPLES)(pin.pin)
app.command("unpin", epilog=pin.EXAMPLES)(pin.unpin)
app.command("ship", epilog=ship.EXAMPLES)(ship.ship)
app.add_typer(token.app, name="token")
app.add_typer(lab.app, name="lab")
app.add_typer(pipeline.app, name="pipeline")


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
