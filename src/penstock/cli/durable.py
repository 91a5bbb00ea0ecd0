"""``penstock durable``: lists, shows and forgets durable subscriptions, which are kept while nobody uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token, Url
from penstock.cli.console import FAILURE, console
from penstock.client.wanted import checked_durable, checked_pubends
from penstock.model.tick import Tick, format_tick
from penstock.system.loop import run

if TYPE_CHECKING:
    from penstock.client.durables import DurableAt, Durables

__all__ = ["app"]

_LIST_EXAMPLES = """
Ends with 1 if a pubend could not be asked.

Examples:

- `penstock durable list penstock://127.0.0.1:7002`
- `penstock durable list penstock://127.0.0.1:7002 --json | jq 'keys'`
"""
_SHOW_EXAMPLES = """
Ends with 1 if nobody knows the name, or a pubend could not be asked.

Examples:

- `penstock durable show penstock://127.0.0.1:7002 billing`
"""
_FORGET_EXAMPLES = """
Ends with 1 if nobody knows the name, or a pubend could not be reached.

Examples:

- `penstock durable forget penstock://127.0.0.1:7002 billing`
- `penstock durable forget penstock://127.0.0.1:7002 billing --pubend trades --yes`
- `penstock durable forget penstocks://sb1:7000,sb2:7000 team/reports:daily --ca ca.pem --token "$TOKEN"`
"""
_LIST: Final = {
    "name": "left",
    "owner": "left",
    "where": "left",
    "pubends": "left",
    "messages": "right",
    "behind": "right",
    "log B": "right",
}
_SHOW: Final = {
    "pubend": "left",
    "where": "left",
    "acknowledged": "left",
    "messages": "right",
    "done": "right",
    "behind": "right",
    "log B": "right",
    "selector": "left",
}

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Durable subscriptions and groups, which go on where they were: see `penstock subscribe --durable NAME`.",
)

_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: by name and pubend.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the durable subscription.")]


@app.command("list", epilog=_LIST_EXAMPLES)
def list_(
    url: Url,
    *,
    as_json: _AsJson = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """List all durable subscriptions and groups of the overlay that you may see, also those that nobody uses.

    *messages* counts those in the logs from its position on, whether its selector wants them or not; `~` marks an
    estimate. *behind* is the time from its position to the end of the log, at the pubend where it is furthest behind.
    """
    found = run(_ask(Party(token, name, ca, certificate, key), url, ""))
    if as_json:
        console.json(found.names)
    else:
        console.table("durable subscriptions", _LIST, iter([_row(*each) for each in found.names.items()]))
    _complain(found)


@app.command("show", epilog=_SHOW_EXAMPLES)
def show(
    url: Url,
    durable: _Name,
    *,
    as_json: _AsJson = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Show where a durable subscription is at each pubend that keeps it, how far behind, and what it wants.

    *done* counts those of its messages that were acknowledged one by one, before others that are not. *messages* is
    about right where a `~` marks it: after a restart, a pubend only knows how large its log is.
    """
    checked_durable(durable)
    found = run(_ask(Party(token, name, ca, certificate, key), url, durable))
    if as_json:
        console.json(found.names)
    elif found.names:
        console.table(f"durable subscription {durable}", _SHOW, iter(_rows_of(found.names[durable])))
    _complain(found)
    if not found.names:
        console.fail(f"there is no durable subscription {durable!r}, or you may not see it")


@app.command("forget", epilog=_FORGET_EXAMPLES)
def forget(  # noqa: PLR0913 - one per option
    url: Url,
    durable: _Name,
    *,
    pubend: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Forget it at this pubend only; may be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
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
    pubends = checked_pubends(pubend or None)
    where = f" at {', '.join(pubends)}" if pubends else ""
    if not yes and not typer.confirm(f"Forget {durable!r}{where}, and everything that is kept for it?", err=True):
        console.fail(f"{durable!r} is not forgotten")
    pending = run(_forget(Party(token, name, ca, certificate, key), url, durable, pubends))
    if pending:
        console.fail(f"{', '.join(pending)} could not be reached, and may still know {durable!r}: try again later")
    console.note(f"{durable!r} is forgotten{where}")


async def _ask(party: Party, url: str, durable: str) -> Durables:
    async with party.client(url) as client:
        return await client.durables(durable)


async def _forget(party: Party, url: str, durable: str, pubends: tuple[str, ...]) -> tuple[str, ...]:
    async with party.client(url) as client:
        return await client.forget(durable, pubends=pubends or None)


def _complain(found: Durables) -> None:
    if found.unreachable:
        console.note(f"{', '.join(found.unreachable)} could not be asked, and may keep more")
        raise typer.Exit(FAILURE)


def _row(name: str, at: dict[str, DurableAt]) -> tuple[str, ...]:
    owners = dict.fromkeys(each.owner for each in at.values())
    # Where it is in use; else where it was last.
    newest = min(at.values(), key=lambda each: -1 if each.away_ms is None else each.away_ms % (1 << 62))
    messages = sum(each.messages for each in at.values())
    return (
        name,
        ", ".join(owners),
        _where(newest),
        ", ".join(at),
        _count(messages, is_exact=all(each.is_exact for each in at.values())),
        _seconds(max(each.behind_ms for each in at.values())),
        f"{sum(each.log_bytes for each in at.values()):,}",
    )


def _rows_of(at: dict[str, DurableAt]) -> list[tuple[str, ...]]:
    return [
        (
            pubend,
            _where(each),
            format_tick(Tick(each.position)),
            _count(each.messages, is_exact=each.is_exact),
            f"{each.settled:,}",
            _seconds(each.behind_ms),
            f"{each.log_bytes:,}",
            each.selector,
        )
        for pubend, each in at.items()
    ]


def _where(at: DurableAt) -> str:
    """The broker that uses it, or since when nobody does; of a group, how many members it has."""
    if at.members is not None:
        return f"group of {at.members:,}"
    if at.away_ms is None:
        return at.broker
    last = f", last at {at.broker}" if at.broker else ""
    return f"away{last}" if at.away_ms < 0 else f"away for {at.away_ms // 1_000:,} s{last}"


def _count(messages: int, *, is_exact: bool) -> str:
    return f"{messages:,}" if is_exact else f"~{messages:,}"


def _seconds(ms: int) -> str:
    return f"{ms / 1_000:,.1f} s"
