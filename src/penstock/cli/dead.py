"""``penstock dead``: looks after dead letters, the messages that work queues have given up.

Whoever looks at them joins the group that holds them, like any worker, and returns what stays. A pubend hands a member
no more than some at a time, so who wants to see all is a member several times.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token, Url
from penstock.cli.console import console
from penstock.model.dead_letter import WHOLE, Original, original_of
from penstock.model.errors import InvalidMessageError, LimitError, MisuseError, PenstockError
from penstock.model.message_id import MessageId
from penstock.protocol.work_frames import DEAD_LETTERS, DEAD_WORK_MS, PREFETCH_MAX
from penstock.session.errors import PublishTimeoutError, RefusedError, UnknownPubendError, WorkLostError
from penstock.system.loop import run

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.subscription import Subscription
    from penstock.session.received import Received

__all__ = ["app"]

_QUIET_S: Final = 0.5
"""When nothing has come for this long, all there is has come."""
_MEMBER_BYTES: Final = 1024 * 1024
"""About what a pubend hands to a member at a time: then no more will come to this one."""
_GROUP_MESSAGES: Final = 10_000
_GROUP_BYTES: Final = 16 * 1024 * 1024
"""What the group knows at a time: later dead letters wait in the log until some of these are done."""
_MEMBERSHIPS_MAX: Final = 100
"""Several times what it takes to hold everything that the group knows."""
_PUBLISH_S: Final = 30.0
"""How long a message that is published again may take to be durable."""
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
_Work: TypeAlias = Callable[["_Tending"], Awaitable[None]]

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

    async def show(tending: _Tending) -> None:
        letters = await tending.all()
        if as_json:
            for letter in letters:
                console.line(_json_line(letter.received))
        else:
            console.table("dead letters", _COLUMNS, (_row(letter.received) for letter in letters))

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

    async def show(tending: _Tending) -> None:
        async for part in tending.chosen(wanted):
            for letter in part:
                console.line(_json_line(letter.received))

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
    letter is still there, and can be retried once more. What cannot be published again stays, with a note.
    """
    wanted = _wanted(ids, is_all=is_all)

    async def publish(tending: _Tending) -> None:
        retrying = _Retrying(tending)
        async for part in tending.chosen(wanted):
            for letter in part:
                await retrying.retry(letter)
        console.note(f"{len(retrying.published):,} published again")
        if retrying.failed:
            console.fail(f"{retrying.failed:,} could not be published again")

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

    async def drop(tending: _Tending) -> None:
        dropped = 0
        async for part in tending.chosen(wanted):
            dropped += await tending.finish(part)
        console.note(f"{dropped:,} dropped")

    run(_tend(Party(token, name, ca, certificate, key), url, drop))


def _wanted(ids: list[str] | None, *, is_all: bool) -> list[MessageId] | None:
    """The identifiers that the user names; None for all."""
    if is_all == bool(ids):
        raise MisuseError("name identifiers, or say --all" if not ids else "either identifiers or --all")
    return None if is_all else [MessageId.parse(text) for text in ids or ()]


async def _tend(party: Party, url: str, work: _Work) -> None:
    """Look at dead letters, do something with them, and return what is left."""
    async with party.client(url) as client:
        pubend = (await client.status()).dead_letters
        if not pubend:
            raise MisuseError("this overlay has no pubend for dead letters (dead_letters in its configuration)")
        span = (await client.survey()).spans.get(pubend)
        if span is None:
            console.fail(f"pubend {pubend} cannot be reached at the moment")
        others = (await client.durables(DEAD_LETTERS, pubends=[pubend])).names.get(DEAD_LETTERS, {}).get(pubend)
        if others is not None and others.members:
            console.note("somebody else looks after dead letters at the moment, and may have some that are not here")
        tending = _Tending(client, pubend, span.latest)
        try:
            await work(tending)
        finally:
            await tending.close()


@dataclass(slots=True, frozen=True)
class _Letter:
    """A dead letter, and the membership to which it was handed."""

    received: Received
    subscription: Subscription


class _Tending:
    """Takes the dead letters that there are, and gives back what stays."""

    def __init__(self, client: Client, pubend: str, latest: int) -> None:
        self.client: Final = client
        self._pubend, self._latest = pubend, latest
        self._memberships: list[Subscription] = []
        self._held: list[_Letter] = []

    async def parts(self) -> AsyncIterator[list[_Letter]]:
        """Yield all dead letters that there were at the beginning, in parts.

        Those that come later, perhaps because of this command, could keep it from ending.
        """
        is_new = True
        while is_new and len(self._memberships) < _MEMBERSHIPS_MAX:
            subscription = await self._join()
            is_new = False
            while batch := await self._batch(subscription):
                is_new = True
                letters = [_Letter(each, subscription) for each in batch]
                self._held += letters
                present = [each for each in letters if each.received.tick <= self._latest]
                if not present:
                    return
                yield present

    async def all(self) -> list[_Letter]:
        """All dead letters, the oldest first; says so if there may be more than the group knows at a time."""
        letters = [letter async for part in self.parts() for letter in part]
        size = sum(len(each.received.body) for each in letters)
        if len(letters) >= _GROUP_MESSAGES or size >= _GROUP_BYTES or len(self._memberships) >= _MEMBERSHIPS_MAX:
            console.note(
                f"these are the first {len(letters):,}; there may be more, which come when some of these are done"
            )
        return sorted(letters, key=lambda each: each.received.tick)

    async def chosen(self, wanted: list[MessageId] | None) -> AsyncIterator[list[_Letter]]:
        """Yield those with these identifiers, or all, in parts; raises ``MisuseError`` if one is not there."""
        if wanted is None:
            async for part in self.parts():
                yield part
            return
        letters = await self.all()
        missing = {str(each) for each in wanted} - {str(each.received.id) for each in letters}
        if missing:
            raise MisuseError(f"there is no dead letter {', '.join(sorted(missing))}")
        yield [each for each in letters if each.received.id in wanted]

    async def finish(self, letters: Iterable[_Letter]) -> int:
        """Have dead letters dropped; returns how many."""
        judged = [each.subscription.acknowledge(each.received) for each in letters]
        dropped = 0
        for each in judged:
            # Somebody else was handed it meanwhile; if nobody deals with it, it comes again.
            with contextlib.suppress(WorkLostError):
                await each
                dropped += 1
        return dropped

    async def close(self) -> None:
        """Give everything back."""
        for letter in self._held:
            letter.subscription.give_back(letter.received)
        for subscription in self._memberships:
            await subscription.close()

    async def _join(self) -> Subscription:
        subscription = self.client.subscribe(
            "TRUE", shared=DEAD_LETTERS, work_ms=DEAD_WORK_MS, prefetch=PREFETCH_MAX, pubends=[self._pubend]
        )
        self._memberships.append(subscription)
        await subscription.ready()
        if subscription.pending:
            console.fail(f"pubend {self._pubend} cannot be reached at the moment")
        return subscription

    async def _batch(self, subscription: Subscription) -> list[Received]:
        """What comes next to a membership; empty if it has all that it can have, or nothing came for a while."""
        self._held = [each for each in self._held if not each.subscription.was_taken_away(each.received)]
        sizes = [len(each.received.body) for each in self._held if each.subscription is subscription]
        if not subscription.queued and (len(sizes) >= PREFETCH_MAX or sum(sizes) >= _MEMBER_BYTES):
            return []
        try:
            async with asyncio.timeout(_QUIET_S):
                return await subscription.batch()
        except TimeoutError:
            return []


class _Retrying:
    """Publishes messages again, each once."""

    def __init__(self, tending: _Tending) -> None:
        self._tending = tending
        self.published: set[int] = set()
        """The ticks of the dead letters whose messages are durable where they came from."""
        self.failed = 0

    async def retry(self, letter: _Letter) -> None:
        """Publish one message again and drop its dead letter, or say why not."""
        received = letter.received
        found = original_of(received.attributes, received.payload, received.content_type)
        if found is None:
            console.note(f"{received.id} stays: it is no dead letter, nothing says where it came from")
            return
        if found.is_cut:
            tick = received.attributes.get("dead_tick")
            console.note(f"{received.id} stays: its attributes are only in the log of {found.pubend}, at tick {tick}")
            self.failed += 1
            return
        if received.tick not in self.published and not await self._publish(letter, found):
            return
        self.published.add(received.tick)
        await self._tending.finish([letter])

    async def _publish(self, letter: _Letter, found: Original) -> bool:
        """Publish a message again; whether it is durable then."""
        client = self._tending.client
        try:
            # So that nobody else is handed it meanwhile.
            await letter.subscription.extend(letter.received)
            where, kind = found.pubend, found.content_type
            await client.publish(found.attributes, found.payload, pubend=where, content_type=kind, timeout_s=_PUBLISH_S)
        except WorkLostError:
            return False
        except (RefusedError, UnknownPubendError, PublishTimeoutError, InvalidMessageError, LimitError) as error:
            self._note_failed(letter, error)
            return False
        try:
            # If that takes too long the command ends: nobody knows whether the message will be published.
            await client.flush(timeout_s=_PUBLISH_S)
        except RefusedError as error:
            self._note_failed(letter, error)
            return False
        if found.reserved:
            console.note(f"{letter.received.id} is published again without {', '.join(found.reserved)}")
        return True

    def _note_failed(self, letter: _Letter, error: PenstockError) -> None:
        console.note(f"{letter.received.id} stays: {error}")
        self.failed += 1


def _json_line(letter: Received) -> str:
    """A dead letter as a line of JSON, with the message that its payload is, if it is one."""
    from penstock.cli.subscribe import json_line
    from penstock.session.received import Received

    line = json_line(letter)
    found = original_of(letter.attributes, letter.payload, letter.content_type)
    if found is None or letter.content_type != WHOLE:
        return line
    tick = letter.attributes.get("dead_tick")
    original = Received(found.pubend, tick if isinstance(tick, int) else 0, letter.id.to_bytes() + letter.payload)
    return f'{line[:-1]},"original":{json_line(original)}}}'


def _row(letter: Received) -> tuple[str, ...]:
    said = letter.attributes
    time = datetime.fromtimestamp(letter.published_at_ms / 1_000, UTC).isoformat(" ", "seconds")
    fields = ("dead_group", "dead_pubend", "dead_attempts", "dead_reason")
    return (time, str(letter.id), *(str(said.get(each, "")) for each in fields))
