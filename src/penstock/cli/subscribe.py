"""``penstock subscribe``: prints the messages that match a selector, as they come."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec
import typer

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token, Url
from penstock.cli.console import console
from penstock.client.wanted import Missing, Start, checked_pubends, checked_start, wanted
from penstock.model.errors import MisuseError
from penstock.selectors import Selector
from penstock.session.inbox import Lag
from penstock.session.received import Received
from penstock.system.loop import run

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.client.subscription import Subscription

__all__ = ["EXAMPLES", "json_line", "parse_start", "shown_lag", "shown_line", "subscribe"]

EXAMPLES = """
Examples:

- `penstock subscribe penstock://127.0.0.1:7002 "symbol = 'YHOO' AND volume > 15"`
- `penstock subscribe penstock://127.0.0.1:7002 "TRUE" --count 10 --json | jq .attributes`
- `penstock subscribe penstock://127.0.0.1:7002 "TRUE" --from quotes=1200 --from trades=88 --show-position`
- `penstock subscribe penstock://127.0.0.1:7002 "TRUE" --from 2026-11-15T10:00:00Z --missing earliest`
- `penstock subscribe penstock://127.0.0.1:7002 "class = 'STOCK'" --last symbol`
- `penstock subscribe penstock://sb1:7000,sb2:7000 "class = 'STOCK'" --durable billing --from earliest --show-lag`
- `penstock subscribe penstock://sb1:7000 "class = 'STOCK'" --durable billing --manual --json | gzip > stock.jsonl.gz`
- `penstock subscribe penstock://sb1:7000 "class = 'STOCK'" --json | penstock publish penstock://other:7000 --jsonl -`
"""

_SHOWN_PAYLOAD_CHARS: Final = 60
_LAG_S: Final = 5.0  # between two lines about the lag
_LOST_SHOWN: Final = 5
"""Lost ranges of ticks named at the end."""


def subscribe(  # noqa: PLR0913 - one per option
    url: Url,
    selector: Annotated[str, typer.Argument(metavar="SELECTOR", help="What to print; `TRUE` is everything.")],
    *,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many messages.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.0, help="Stop after this many seconds.")] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="earliest|latest|TIME|PUBEND=TICK",
            help="Begin with all there is, with what comes now, at a time, or at a tick of a pubend (may be repeated).",
        ),
    ] = None,
    last: Annotated[
        str,
        typer.Option(
            metavar="ATTRIBUTE", help="Begin with the newest message of each value of this attribute that logs have."
        ),
    ] = "",
    missing: Annotated[
        str,
        typer.Option(metavar="fail|earliest|latest", help="What to do if the beginning is not kept any more."),
    ] = "fail",
    durable: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Resume this durable subscription; its positions are kept while you are away."
        ),
    ] = "",
    pubend: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only messages of this pubend; may be repeated.")
    ] = None,
    manual: Annotated[
        bool, typer.Option("--manual", help="Acknowledge a message when it is written out, not when it is read.")
    ] = False,
    show_lag: Annotated[
        bool, typer.Option("--show-lag", help="Tell on standard error now and then how far behind this is.")
    ] = False,
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

    Printing starts when the subscription is in force on all paths, which is reported on standard error. With a
    durable name, `--from` counts only if the name is new; `penstock durable forget` ends it.
    """
    pubends = checked_pubends(pubend or None)
    begins = _beginning(start or [], last)
    asked = _Asked(Selector.parse(selector), begins, last, cast("Missing", missing), durable, manual, pubends)
    asked.check()
    reader = _Reader(json_line if as_json else shown_line, count, manual=manual)
    party = Party(token, name, ca, certificate, key)
    try:
        run(_read(party, url, asked, reader, seconds=seconds, show_lag=show_lag))
    finally:
        console.note(f"{reader.printed:,} messages")
        if reader.lost:
            shown = "; ".join(reader.lost[:_LOST_SHOWN])
            console.note(f"LOST: {len(reader.lost):,} ranges of ticks were trimmed or damaged: {shown}")
        if show_position and reader.positions:
            console.note("go on with " + " ".join(f"--from {each}={tick}" for each, tick in reader.positions.items()))


def _beginning(texts: list[str], last: str) -> Start | None:
    if not last:
        return parse_start(texts)
    if texts:
        raise MisuseError("--last says where to begin, and so does --from: give one of them")
    return "last"


def parse_start(texts: list[str]) -> Start | None:
    """Parse the start that was given on the command line.

    >>> parse_start(["quotes=1200", "a=b=7"])
    {'quotes': 1200, 'a=b': 7}
    >>> parse_start(["earliest"])
    'earliest'
    """
    if not texts:
        return None
    if any("=" in text for text in texts):
        return _parse_ticks(texts)
    if len(texts) > 1:
        raise MisuseError(f"--from {texts[1]!r} is one too many: only ticks of pubends can be several")
    if texts[0] in ("earliest", "latest"):
        return cast("Start", texts[0])
    try:
        return datetime.fromisoformat(texts[0])
    except ValueError:
        raise MisuseError(f"--from {texts[0]!r} is not one of earliest, latest, a time, or pubend=tick") from None


def _parse_ticks(texts: list[str]) -> dict[str, int]:
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
class _Asked:
    """The subscription that the user asks for."""

    selector: Selector
    start: Start | None
    key: str
    missing: Missing
    durable: str
    is_manual: bool
    pubends: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise if it is invalid, before there is a connection."""
        wanted(str(self.selector), **self._options())

    def subscribe(self, client: Client) -> Subscription:
        return client.subscribe(self.selector, **self._options())

    def _options(self) -> dict[str, Any]:
        acknowledge = "manual" if self.is_manual else "auto"
        return {
            "start": self.start,
            "key": self.key,
            "missing": self.missing,
            "durable": self.durable,
            "acknowledge": acknowledge,
            "pubends": self.pubends or None,
        }


class _Reader:
    """Prints up to ``count`` messages."""

    def __init__(self, line: Callable[[Received], str], count: int | None, *, manual: bool) -> None:
        self._line, self._count, self._is_manual = line, count, manual
        self.printed = 0
        self.positions: dict[str, int] = {}
        """The positions after the last printed message, by pubend."""
        self.lost: list[str] = []
        """Ranges of ticks that are lost for good."""

    async def read(self, subscription: Subscription) -> None:
        # Take no more than wanted: whatever is taken out counts as read.
        while batch := await subscription.batch(None if self._count is None else self._count - self.printed):
            console.write("".join([self._line(each) + "\n" for each in batch]))
            # The reader of a pipe wants to see messages at once.
            sys.stdout.flush()
            if self._is_manual:
                subscription.acknowledge_through()
            self.printed += len(batch)
            if self.printed == self._count:
                return
            # Otherwise heartbeats would have to wait as long as messages keep coming.
            await asyncio.sleep(0)


async def _read(
    party: Party, url: str, asked: _Asked, reader: _Reader, *, seconds: float | None, show_lag: bool
) -> None:
    async with party.client(url) as client:
        subscription = await asked.subscribe(client).ready()
        late = f"; not yet from {', '.join(subscription.pending)}" if subscription.pending else ""
        console.note(f"subscribed at {client.broker} to {subscription.selector}{late}")
        try:
            async with _showing_lag(subscription, is_wanted=show_lag), asyncio.timeout(seconds):
                await reader.read(subscription)
        except TimeoutError:
            return
        finally:
            reader.positions = subscription.positions
            reader.lost = [f"{each.pubend} {each.first} to {each.last}" for each in subscription.lost]


@asynccontextmanager
async def _showing_lag(subscription: Subscription, *, is_wanted: bool) -> AsyncIterator[None]:
    """Print the lag regularly while inside, and once at the end."""

    async def show() -> None:
        while True:
            await asyncio.sleep(_LAG_S)
            console.note(shown_lag(subscription.lag))

    if not is_wanted:
        yield
        return
    showing = asyncio.create_task(show())
    try:
        yield
    finally:
        showing.cancel()
        console.note(shown_lag(subscription.lag))


def shown_lag(lags: dict[str, Lag]) -> str:
    """How far behind a subscription is, in one line.

    >>> shown_lag({"quotes": Lag(1_250, 17), "trades": Lag(0, 0)})
    'lag: quotes 1.2 s, 17 pending; trades 0.0 s, 0 pending'
    """
    each = [f"{pubend} {lag.behind_ms / 1_000:,.1f} s, {lag.pending:,} pending" for pubend, lag in lags.items()]
    return f"lag: {'; '.join(each) or 'no pubend has begun'}"


def json_line(received: Received) -> str:
    """A message as one line of JSON, which ``penstock publish --jsonl`` accepts; a binary payload becomes base64."""
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
    """A message as one line for people: time, pubend, attributes, and the beginning of the payload."""
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
