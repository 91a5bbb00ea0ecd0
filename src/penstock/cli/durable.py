"""``penstock durable``: manages durable subscriptions, which are kept while nobody uses them."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token, Url
from penstock.cli.console import console
from penstock.client.wanted import checked_durable
from penstock.system.loop import run

__all__ = ["app"]

_FORGET_EXAMPLES = """
Ends with 1 if nobody knows the name, or a pubend could not be reached.

Examples:

- `penstock durable forget penstock://127.0.0.1:7002 billing`
- `penstock durable forget penstocks://sb1:7000,sb2:7000 team/reports:daily --ca ca.pem --token "$TOKEN"`
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Durable subscriptions, which go on where they were: `penstock subscribe --durable NAME` makes them.",
)


@app.callback()
def _group() -> None:
    # Without a callback, typer would drop the name of a single command.
    pass


@app.command("forget", epilog=_FORGET_EXAMPLES)
def forget(
    url: Url,
    durable: Annotated[str, typer.Argument(metavar="NAME", help="The name of the durable subscription.")],
    *,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Forget a durable subscription: its positions, and what pubends keep for it.

    If a client is using it, that subscription ends. The name can be used again, and starts from scratch.
    """
    checked_durable(durable)
    pending = run(_forget(Party(token, name, ca, certificate, key), url, durable))
    if pending:
        console.fail(f"{', '.join(pending)} could not be reached, and may still know {durable!r}: try again later")
    console.note(f"{durable!r} is forgotten")


async def _forget(party: Party, url: str, durable: str) -> tuple[str, ...]:
    async with party.client(url) as client:
        return await client.forget(durable)
