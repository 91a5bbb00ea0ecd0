"""``penstock subscribe``: prints the messages that match a selector, as they come."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token, Url
from penstock.cli.console import console
from penstock.client import Received, Subscription
from penstock.client.positions import checked_start
from penstock.live.loop import run
from penstock.model.errors import MisuseError
from penstock.selectors import Selector

__all__ = ["EXAMPLES", "json_line", "parse_start", "shown_line", "subscribe"]

EXAMPLES = """
Examples:

- `penstock subscribe penstock://127.0.0.1:7002 "symbol = 'YHOO' AND volume > 15"`
- `penstock subscribe penstock://127.0.0.1:7002 "TRUE" --count 10 --json | jq .attributes`
- `penstock subscribe penstock://127.0.0.1:7002 "TRUE" --from quotes=1200 --from trades=88 --show-position`
- `penstock subscribe penstock://sb1:7000 "class = 'STOCK'" --json | penstock publish penstock://other:7000 --jsonl -`
"""

_SHOWN_PAYLOAD_CHARS: Final = 60


def subscribe(  # noqa: PLR0913 - one per option
    url: Url,
    selector: Annotated[str, typer.Argument(metavar="SELECTOR", help="What to print; `TRUE` is everything.")],
    *,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.0, help="End after so many seconds.")] = None,
    start: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="PUBEND=TICK", help="Begin at this tick of a pubend; may be repeated."),
    ] = None,
    show_position: Annotated[
        bool, typer.Option("--show-position", help="Tell at the end how to go on behind the last message.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Print the messages that match a selector, until Ctrl-C or a limit.

    Nothing is printed before the subscription is in force on all paths, which standard error tells.
    """
    wanted = _Wanted(Selector.parse(selector), parse_start(start or []))
    reader = _Reader(json_line if as_json else shown_line, count)
    party = Party(token, name, ca, certificate, key)
    try:
        run(_read(party, url, wanted, reader, seconds))
    finally:
        console.note(f"{reader.printed:,} messages")
        if show_position and reader.positions:
            console.note("go on with " + " ".join(f"--from {each}={tick}" for each, tick in reader.positions.items()))


def parse_start(texts: list[str]) -> dict[str, int]:
    """Ticks by pubend, as they are given on the command line.

    >>> parse_start(["quotes=1200", "a=b=7"])
    {'quotes': 1200, 'a=b': 7}
    """
    start: dict[str, int] = {}
    for text in texts:
        pubend, separator, tick = text.rpartition("=")
        if not separator or not pubend or not (tick.isascii() and tick.isdigit()):
            raise MisuseError(f"position {text!r} is not of the form pubend=tick")
        if pubend in start:
            raise MisuseError(f"a position of pubend {pubend!r} is given twice")
        start[pubend] = int(tick)
    return checked_start(start)


@dataclass(slots=True, frozen=True)
class _Wanted:
    """What is subscribed to."""

    selector: Selector
    start: dict[str, int]


class _Reader:
    """Prints up to so many messages."""

    def __init__(self, line: Callable[[Received], str], count: int | None) -> None:
        self._line, self._count = line, count
        self.printed = 0
        self.positions: dict[str, int] = {}
        """Where the subscription goes on behind what was printed."""

    async def read(self, subscription: Subscription) -> None:
        # No more than wanted: what was taken out counts as read.
        while wanted := await subscription.batch(None if self._count is None else self._count - self.printed):
            console.write("".join([self._line(each) + "\n" for each in wanted]))
            # Who reads from a pipe wants what is there now.
            sys.stdout.flush()
            self.printed += len(wanted)
            if self.printed == self._count:
                return
            # Else heartbeats would have to wait as long as messages keep coming.
            await asyncio.sleep(0)


async def _read(party: Party, url: str, wanted: _Wanted, reader: _Reader, seconds: float | None) -> None:
    async with party.client(url) as client:
        subscription = await client.subscribe(wanted.selector, start=wanted.start).ready()
        late = f"; not yet from {', '.join(subscription.pending)}" if subscription.pending else ""
        console.note(f"subscribed at {client.broker} to {subscription.selector}{late}")
        try:
            async with asyncio.timeout(seconds):
                await reader.read(subscription)
        except TimeoutError:
            return
        finally:
            reader.positions = subscription.positions


def json_line(received: Received) -> str:
    """A message as one line of JSON, which ``penstock publish --jsonl`` takes again; what is not text is base64."""
    line: dict[str, Any] = {
        "id": str(received.id),
        "pubend": received.pubend,
        "tick": received.tick,
        "attributes": received.attributes,
    }
    payload = received.payload
    try:
        line["payload"] = payload.decode()
    except UnicodeDecodeError:
        line["payload_base64"] = b64encode(payload).decode()
    if received.content_type:
        line["content_type"] = received.content_type
    return msgspec.json.encode(line).decode()


def shown_line(received: Received) -> str:
    """A message as one line for people: when, attributes, and the beginning of the payload."""
    seconds, milliseconds = divmod(received.published_at_ms, 1_000)
    clock = f"{seconds // 3_600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{milliseconds:03d}Z"
    attributes = " ".join(
        f"{each}={value!r}" if isinstance(value, str | float) else f"{each}={msgspec.json.encode(value).decode()}"
        for each, value in received.attributes.items()
    )
    return f"{clock} {received.pubend} {attributes}{_shown_payload(received.payload)}"


def _shown_payload(payload: bytes) -> str:
    if not payload:
        return ""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return f" | {len(payload):,} bytes"
    if not text.isprintable():
        return f" | {len(payload):,} bytes"
    return f" | {text}" if len(text) <= _SHOWN_PAYLOAD_CHARS else f" | {text[:_SHOWN_PAYLOAD_CHARS]}…"
