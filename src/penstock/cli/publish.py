"""``penstock publish``: publishes one message, or a stream of them at a chosen rate."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from penstock.cli import publish_inputs as inputs
from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token, Url
from penstock.cli.console import console
from penstock.cli.match_inputs import Source
from penstock.cli.progress import ProgressReporter
from penstock.model import Message, MessageId
from penstock.model.errors import MisuseError
from penstock.model.expiry import lifetime_ms
from penstock.system.loop import run

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.counters import ClientCounters

__all__ = ["EXAMPLES", "publish"]

EXAMPLES = """
A value is a number, `true` or `false` if it looks like one, else text; quotes make text of anything: `code="'007'"`.
Lines of `--jsonl` are flat JSON objects of attributes, or what `penstock subscribe --json` prints.

Examples:

- `penstock publish penstock://127.0.0.1:7001 --attribute symbol=YHOO --attribute volume=500 --payload 18.2`
- `penstock publish penstock://127.0.0.1:7001 --attribute kind=picture --payload @picture.png`
- `penstock publish penstock://127.0.0.1:7001 --generate 10000 --rate 500`
- `penstock publish penstock://127.0.0.1:7001 --attribute alarm=true --expires 30`
- `penstock publish penstock://127.0.0.1:7001 --quotes quotes.csv.gz --pubend quotes --json`
"""

_PAUSE_S: Final = 0.005
"""The shortest pause of a stream with a rate; messages that fall due meanwhile are sent together."""
_TOLD_EVERY: Final = 200
"""Messages per step of the progress bar."""


@dataclass(slots=True, frozen=True)
class _Stream:
    """The messages to send, and how to send them."""

    messages: Iterable[Message]
    total: int | None
    rate: float | None
    pubend: str
    expires: float | None
    shows_ids: bool


class _Result:
    """The outcome of a stream; it has no counters if there was no connection."""

    def __init__(self) -> None:
        self.counters: ClientCounters | None = None
        self.seconds = 0.0

    def summary(self, counters: ClientCounters) -> str:
        """The last line of output."""
        counts = f"{counters.published:,} messages published, {counters.acknowledged:,} acknowledged"
        return f"{counts}, in {self.seconds:.2f} s"


def publish(  # noqa: PLR0913 - one per option
    url: Url,
    *,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="An attribute; may be repeated.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="TEXT|@FILE|-", help="The payload; `-` is standard input.")
    ] = None,
    jsonl: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Publish a message per line; `-` is standard input.")
    ] = None,
    quotes: Annotated[str | None, typer.Option(metavar="FILE", help="Publish the quotes of a CSV file.")] = None,
    generate: Annotated[int | None, typer.Option(min=0, metavar="N", help="Publish this many made-up quotes.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes up the same quotes.")] = 0,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Messages per second; if not given, all at once.")
    ] = None,
    pubend: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The pubend to publish to, at whatever broker; if not given, the client chooses one."
        ),
    ] = "",
    expires: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Do not deliver the messages any more this long after they are published."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the id of each message as a JSON line.")] = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Publish a message, or a stream of messages, and wait until the broker has acknowledged them."""
    total, messages = _chosen(attribute, payload, jsonl, quotes, generate, seed)
    if expires is not None:
        # Before connecting: a bad lifetime is the caller's mistake.
        lifetime_ms(expires)
    stream = _Stream(messages, total, rate, pubend, expires, as_json)
    with ProgressReporter(quiet_unless_terminal=True) as reporter:
        reporter.stage("publishing", total=total)
        result = _Result()
        try:
            run(_send(Party(token, name, ca, certificate, key), url, stream, reporter, result))
        finally:
            # Also when some were refused or lost: then the numbers matter most.
            if result.counters is not None:
                console.note(result.summary(result.counters))


def _chosen(
    attribute: list[str] | None,
    payload: str | None,
    jsonl: str | None,
    quotes: str | None,
    generate: int | None,
    seed: int,
) -> tuple[int | None, Iterable[Message]]:
    """The number of messages if known, and the messages."""
    is_single = attribute is not None or payload is not None
    if is_single + sum(each is not None for each in (jsonl, quotes, generate)) != 1:
        raise MisuseError("say what to publish: either --attribute and --payload, or --jsonl, --quotes or --generate")
    if jsonl is not None:
        return None, inputs.json_messages(Source(jsonl))
    if quotes is not None:
        return inputs.quotes_of(quotes)
    if generate is not None:
        return generate, inputs.made_up_quotes(generate, seed)
    content = inputs.read_payload(payload) if payload is not None else b""
    return 1, [Message(inputs.parse_attributes(attribute or []), content)]


async def _send(party: Party, url: str, stream: _Stream, reporter: ProgressReporter, result: _Result) -> None:
    async with party.client(url) as client:
        started_s = time.perf_counter()
        watch = asyncio.create_task(_tell_when_held_back(client, reporter))
        try:
            await _publish_all(client, stream, reporter)
            await client.flush()
        finally:
            watch.cancel()
            result.counters, result.seconds = client.counters, time.perf_counter() - started_s
    sys.stdout.flush()


async def _publish_all(client: Client, stream: _Stream, reporter: ProgressReporter) -> None:
    sent, started_s = 0, time.perf_counter()
    async for message in inputs.as_they_come(stream.messages):
        if stream.rate is not None:
            await _wait_until(started_s + sent / stream.rate)
        message_id = await _publish(client, message, stream)
        sent += 1
        if stream.shows_ids:
            console.line(msgspec.json.encode({"id": str(message_id)}).decode())
        if sent % _TOLD_EVERY == 0:
            reporter.advance(_TOLD_EVERY)
            # Acknowledgements and heartbeats must be read in between.
            await asyncio.sleep(0)


async def _tell_when_held_back(client: Client, reporter: ProgressReporter) -> None:
    """Report why publishing is held back, each time that changes, so that nobody wonders about a stalled bar."""
    reason = ""
    while True:
        reason = await client.held_back_other_than(reason)
        reporter.note(f"held back by {client.broker}: {reason}" if reason else "not held back any more")


async def _publish(client: Client, message: Message, stream: _Stream) -> MessageId:
    return await client.publish(
        message.attributes,
        message.payload,
        content_type=message.content_type,
        pubend=stream.pubend,
        expires=stream.expires,
    )


async def _wait_until(due_s: float) -> None:
    wait_s = due_s - time.perf_counter()
    if wait_s > 0:
        await asyncio.sleep(max(wait_s, _PAUSE_S))
