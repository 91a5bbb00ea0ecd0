"""``penstock dead``: looks after dead letters, the messages that work queues have given up.

Whoever looks at them joins the group that holds them, like any worker, and returns what stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token, Url
from penstock.cli.console import console
from penstock.model.errors import MisuseError
from penstock.model.message_id import MessageId
from penstock.protocol.work_frames import DEAD_LETTERS, DEAD_WORK_MS, PREFETCH_MAX
from penstock.system.loop import run

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.subscription import Subscription
    from penstock.session.received import Received

__all__ = ["app"]

_QUIET_S: Final = 0.5
"""When nothing has come for this long, all there is has come."""
_TOLD: Final = ("dead_group", "dead_pubend", "dead_tick", "dead_attempts", "dead_reason", "dead_history")
"""The attributes by which a dead letter differs from its message."""
_COLUMNS: Final = {
    "published": "left",
    "id": "left",
    "group": "left",
    "pubend": "left",
    "attempts": "right",
    "why": "left",
}
_Ids: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Identifiers, as `penstock dead list` shows them.")
]
_All: TypeAlias = Annotated[bool, typer.Option("--all", help="All there are, instead of some.")]
_Work: TypeAlias = Callable[["Client", "Subscription", "list[Received]"], Awaitable[None]]

_EXAMPLES = """
Examples:

- `penstock dead list penstock://127.0.0.1:7001`
- `penstock dead show penstock://127.0.0.1:7001 000000E000000G38EZKKWT0000`
- `penstock dead retry penstock://127.0.0.1:7001 --all`
- `penstock dead drop penstock://127.0.0.1:7001 000000E000000G38EZKKWT0000`
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Dead letters: messages that a group has handed out in vain too often (`deliveries_max`).",
    epilog=_EXAMPLES,
)


@app.command("list", epilog=_EXAMPLES)
def list_(
    url: Url,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """List the dead letters that nobody has retried or dropped, the oldest first."""

    async def show(_client: Client, _subscription: Subscription, letters: list[Received]) -> None:
        if as_json:
            from penstock.cli.subscribe import json_line

            for letter in letters:
                console.line(json_line(letter))
        else:
            console.table("dead letters", _COLUMNS, (_row(letter) for letter in letters))

    run(_tend(Party(token, name, ca, certificate, key), url, show))


@app.command("show", epilog=_EXAMPLES)
def show(
    url: Url,
    ids: _Ids = None,
    *,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Show dead letters with everything that is known of them, as JSON, one per line."""
    wanted = _wanted(ids, is_all=False)

    async def show(_client: Client, _subscription: Subscription, letters: list[Received]) -> None:
        from penstock.cli.subscribe import json_line

        for letter in _chosen(letters, wanted):
            console.line(json_line(letter))

    run(_tend(Party(token, name, ca, certificate, key), url, show))


@app.command("retry", epilog=_EXAMPLES)
def retry(
    url: Url,
    ids: _Ids = None,
    *,
    is_all: _All = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Publish messages again, each to the pubend that it came from, and drop their dead letters.

    A message that is published again has a new identifier. If the command is interrupted between the two, the dead
    letter is still there, and can be retried once more.
    """
    wanted = _wanted(ids, is_all=is_all)

    async def publish(client: Client, subscription: Subscription, letters: list[Received]) -> None:
        chosen = _chosen(letters, wanted)
        for letter in chosen:
            attributes = {name: value for name, value in letter.attributes.items() if name not in _TOLD}
            pubend = letter.attributes.get("dead_pubend")
            if not isinstance(pubend, str):
                raise MisuseError(f"message {letter.id} is no dead letter: nothing says where it came from")
            await client.publish(attributes, letter.payload, pubend=pubend, content_type=letter.content_type)
        await client.flush()
        for letter in chosen:
            await subscription.acknowledge(letter)
        console.note(f"{len(chosen):,} published again")

    run(_tend(Party(token, name, ca, certificate, key), url, publish))


@app.command("drop", epilog=_EXAMPLES)
def drop(
    url: Url,
    ids: _Ids = None,
    *,
    is_all: _All = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Drop dead letters for good."""
    wanted = _wanted(ids, is_all=is_all)

    async def drop(_client: Client, subscription: Subscription, letters: list[Received]) -> None:
        chosen = _chosen(letters, wanted)
        for letter in chosen:
            await subscription.acknowledge(letter)
        console.note(f"{len(chosen):,} dropped")

    run(_tend(Party(token, name, ca, certificate, key), url, drop))


def _wanted(ids: list[str] | None, *, is_all: bool) -> list[MessageId] | None:
    """The identifiers that the user names; None for all."""
    if is_all == bool(ids):
        raise MisuseError("name identifiers, or say --all" if not ids else "either identifiers or --all")
    return None if is_all else [MessageId.parse(text) for text in ids or ()]


def _chosen(letters: list[Received], wanted: list[MessageId] | None) -> list[Received]:
    if wanted is None:
        return letters
    by_id = {letter.id: letter for letter in letters}
    missing = [str(each) for each in wanted if each not in by_id]
    if missing:
        raise MisuseError(f"there is no dead letter {', '.join(missing)}")
    return [by_id[each] for each in wanted]


async def _tend(party: Party, url: str, work: _Work) -> None:
    """Take all dead letters, do something with them, and return what is left."""
    async with party.client(url) as client:
        pubend = (await client.status()).dead_letters
        if not pubend:
            raise MisuseError("this overlay has no pubend for dead letters (dead_letters in its configuration)")
        subscription = client.subscribe(
            "TRUE", shared=DEAD_LETTERS, work_ms=DEAD_WORK_MS, prefetch=PREFETCH_MAX, pubends=[pubend]
        )
        async with subscription:
            await subscription.ready()
            if subscription.pending:
                console.fail(f"pubend {pubend} cannot be reached at the moment")
            letters: list[Received] = []
            try:
                while len(letters) < PREFETCH_MAX:
                    async with asyncio.timeout(_QUIET_S):
                        letters += await subscription.batch()
            except TimeoutError:
                pass
            if len(letters) >= PREFETCH_MAX:
                console.note(f"these are the first {len(letters):,}; there may be more")
            await work(client, subscription, letters)
            for letter in letters:
                subscription.give_back(letter)


def _row(letter: Received) -> tuple[str, ...]:
    said = letter.attributes
    time = datetime.fromtimestamp(letter.published_at_ms / 1_000, UTC).isoformat(" ", "seconds")
    fields = ("dead_group", "dead_pubend", "dead_attempts", "dead_reason")
    return (time, str(letter.id), *(str(said.get(each, "")) for each in fields))
