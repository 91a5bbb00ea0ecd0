"""``penstock top``: shows a live view of brokers, refreshed each second: rates, what limits them, lags and queues.

Tables of brokers, pubends and streams are drawn from each look at the brokers; limited pubends and recovering streams
have colours.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
import typer
from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token
from penstock.cli.console import FAILURE, Printable, console, printable_json
from penstock.cli.status import targets
from penstock.cli.status_rows import RATES, STREAMS, outboxes, rate_rows, stream_rows
from penstock.client.client import Client
from penstock.live.node_status import NodeStatus
from penstock.model.decoding import UnreadableError, decoded
from penstock.model.errors import MisuseError
from penstock.protocol.status import BrokerStatus, with_homes
from penstock.session.errors import ClientError
from penstock.system.loop import run

__all__ = ["EXAMPLES", "Look", "broker_rows", "picture", "top"]

EXAMPLES = """
Yellow pubends are limited, by the broker that is named beside them; red streams recover. Ctrl-C ends it.

Examples:

- `penstock top overlay.toml`
- `penstock top penstock://127.0.0.1:7001,127.0.0.1:7003 --interval 0.5`
- `penstock top http://127.0.0.1:9001 --once --json` by the admin port, with its admin token
"""
_CONNECT_MS: Final = 2_000
_ANSWER_S: Final = 3.0
_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_status: Final = msgspec.json.Decoder(NodeStatus)
_BROKERS: Final = {
    "broker": "left",
    "links": "left",
    **dict.fromkeys(("clients", "subs", "published/s", "delivered/s", "outbox B"), "right"),
}
_ROWS_MAX: Final = 200
"""Rows of a table; more would not help on a terminal."""


@dataclass(slots=True, frozen=True)
class Look:
    """The status of all brokers at one time."""

    at_s: float
    statuses: Mapping[str, BrokerStatus]
    """Statuses by broker; those of homes among them."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why the other brokers did not answer, by broker."""


_Show: TypeAlias = Callable[[Look, Look | None], object]


def top(  # noqa: PLR0913 - one per option
    target: Annotated[
        str,
        typer.Argument(
            metavar="URL|OVERLAY.TOML",
            help="Brokers (separated by commas), admin ports (`http://host:port`), or the file that describes all.",
        ),
    ],
    *,
    interval: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each look.")] = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Watch brokers until Ctrl-C: rates and what limits them, how far streams are behind, how much is queued."""
    brokers = _brokers(target, Party(token, name, ca, certificate, key))
    with suppress(KeyboardInterrupt):
        with _shower(once=once, as_json=as_json) as show:
            look = run(_watch(brokers, show, interval_s=None if once else interval))
        if look.problems:
            raise typer.Exit(FAILURE)


class _Broker:
    """A broker polled over a connection that is kept as long as it lasts."""

    def __init__(self, name: str, make: Callable[[], Client]) -> None:
        self.name = name
        self._make = make
        self._client: Client | None = None

    async def ask(self) -> BrokerStatus:
        """Its status; raises ``ClientError`` if it does not answer in time."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                if self._client is None:
                    client = self._make()
                    await client.open()
                    self._client = client
                return await self._client.status()
        except TimeoutError:
            await self.close()
            raise ClientError(f"did not answer within {_ANSWER_S:.0f} s") from None
        except ClientError:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            await client.close(flush=False)


class _AdminBroker:
    """A broker polled at its admin port."""

    def __init__(self, url: str, token: str) -> None:
        self.name, self._token = url, token

    async def ask(self) -> BrokerStatus:
        """Its status; raises ``ClientError`` if it does not answer in time."""
        return await asyncio.to_thread(self._get)

    async def close(self) -> None:
        """Do nothing: no connection is kept."""

    def _get(self) -> BrokerStatus:
        parts = urlsplit(self.name)
        connection = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_ANSWER_S)
        try:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            connection.request("GET", "/status", headers=headers)
            answer = connection.getresponse()
            if answer.status == 401:
                raise ClientError(
                    "asks for another token: its admin_token, or what is in admin.token in its data folder"
                )
            return decoded(_status.decode, answer.read(_ANSWER_BYTES_MAX)).broker
        except (OSError, HTTPException) as error:
            raise ClientError(str(error) or type(error).__name__) from None
        except UnreadableError:
            raise ClientError("what answers there is not a broker") from None
        finally:
            connection.close()


def _brokers(target: str, given: Party) -> list[_Broker | _AdminBroker]:
    if target.startswith("https://"):
        raise MisuseError(f"{target}: brokers serve their admin ports without TLS; use http://")
    if target.startswith("http://"):
        return [_AdminBroker(_admin_url(part), given.token) for part in target.split(",")]

    def maker(url: str, party: Party) -> Callable[[], Client]:
        return lambda: party.client(url, connect_ms=_CONNECT_MS)

    return [_Broker(asked.name or asked.url, maker(asked.url, party)) for asked, party in targets(target, given)]


def _admin_url(text: str) -> str:
    url = text.strip() if "://" in text else f"http://{text.strip()}"
    try:
        is_whole = bool(urlsplit(url).hostname and urlsplit(url).port)
    except ValueError:
        is_whole = False
    if not is_whole:
        raise MisuseError(f"{text!r} is not an admin address such as http://127.0.0.1:9001")
    return url


async def _look(brokers: list[_Broker | _AdminBroker]) -> Look:
    answers = await asyncio.gather(*(broker.ask() for broker in brokers), return_exceptions=True)
    statuses, problems = {}, {}
    for broker, answer in zip(brokers, answers, strict=True):
        if isinstance(answer, ClientError):
            problems[broker.name] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            statuses[answer.broker] = answer
    return Look(time.monotonic(), with_homes(statuses), problems)


async def _watch(brokers: list[_Broker | _AdminBroker], show: _Show, *, interval_s: float | None) -> Look:
    """Poll and show the brokers repeatedly, or once if there is no interval; return the last look."""
    before: Look | None = None
    async with AsyncExitStack() as stack:
        for broker in brokers:
            stack.push_async_callback(broker.close)
        while True:
            look = await _look(brokers)
            show(look, before)
            if interval_s is None:
                return look
            before = look
            await asyncio.sleep(max(0.0, look.at_s + interval_s - time.monotonic()))


@contextmanager
def _shower(*, once: bool, as_json: bool) -> Iterator[_Show]:
    """A function that shows a look; on a terminal each replaces the one before, and the last one stays."""
    if as_json:
        yield _show_json
    elif once:
        printer = RichConsole(highlight=False)
        yield lambda look, before: printer.print(Printable(_picture(look, before)))
    else:
        with Live(auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda look, before: live.update(Printable(_picture(look, before)), refresh=True)


def _picture(look: Look, before: Look | None) -> RenderableType:
    limited = sum(bool(row[3]) for row in rate_rows(look.statuses))
    homes = {home for told in look.statuses.values() for home in told.homes}
    counted = f"{len(look.statuses) - len(homes)} brokers" + (f", homes: {len(homes)}" if homes else "")
    title = f"{datetime.now(UTC):%H:%M:%S} UTC, {counted}, {limited} pubends limited"
    return picture(look, before, title=title)


def _show_json(look: Look, _before: Look | None) -> None:
    told = {"time": datetime.now(UTC), "brokers": look.statuses, "problems": look.problems}
    console.line(printable_json(msgspec.json.encode(told)))
    sys.stdout.flush()


def picture(look: Look, before: Look | None, *, title: str) -> RenderableType:
    """All tables of one look; rates are computed against the look before."""
    parts: list[RenderableType] = [Text(title, style="bold")]
    for heading, columns, rows in (
        ("brokers", _BROKERS, broker_rows(look, before)),
        ("pubends", RATES, list(rate_rows(look.statuses))),
        ("streams", STREAMS, list(stream_rows(look.statuses))),
    ):
        if rows:
            parts.append(_table(heading, columns, rows))
    parts += [Text(f"{name}: {problem}", style="red") for name, problem in look.problems.items()]
    return Group(*parts)


def broker_rows(look: Look, before: Look | None) -> list[tuple[str, ...]]:
    """A row for each broker."""
    rows = []
    for name, told in look.statuses.items():
        rates = (_rate(look, before, name, count) for count in ("published", "delivered"))
        links = ", ".join(told.links) or "none"
        rows.append((name, links, f"{told.clients:,}", f"{told.subscriptions:,}", *rates, outboxes(told)))
    return rows


def _rate(look: Look, before: Look | None, name: str, count: str) -> str:
    """How fast a count has grown; empty if unknown, as after a restart."""
    if before is None or name not in before.statuses or look.at_s <= before.at_s:
        return ""
    old, new = before.statuses[name], look.statuses[name]
    if old.incarnation != new.incarnation:
        return ""
    grown = new.counts.get(count, 0) - old.counts.get(count, 0)
    return f"{grown / (look.at_s - before.at_s):,.0f}"


def _table(heading: str, columns: Mapping[str, str], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(title=heading, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column, justify in columns.items():
        table.add_column(column, justify="right" if justify == "right" else "left")
    for row in rows[:_ROWS_MAX]:
        table.add_row(*(Text(cell) for cell in row), style=_style(columns, row))
    if len(rows) > _ROWS_MAX:
        table.caption = f"and {len(rows) - _ROWS_MAX:,} more"
    return table


def _style(columns: Mapping[str, str], row: tuple[str, ...]) -> str:
    """The colour of a row: limited pubends and recovering streams stand out."""
    cells = dict(zip(columns, row, strict=True))
    if cells.get("recovering") == "yes":
        return "red"
    return "yellow" if cells.get("allowed") else ""
