"""``penstock status``: shows the state of each broker, and the progress of guaranteed pubends and their streams."""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli import status_rows
from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token
from penstock.cli.console import FAILURE, console, printable
from penstock.cli.holdings import HOLDINGS, holding_rows, holdings
from penstock.cli.status_rows import BALANCING, GROUPS, RATES, STREAMS, balancing_rows, group_rows, rate_rows
from penstock.model.tick import Tick, format_tick, tick_ms
from penstock.protocol.status import BrokerStatus, PubendStatus, with_homes
from penstock.session.address import Address, parse_addresses
from penstock.session.errors import ClientError
from penstock.system.loop import run

if TYPE_CHECKING:
    from penstock.live.overlay import BrokerPlace

__all__ = [
    "EXAMPLES",
    "Asked",
    "ask_all",
    "last_values_rows",
    "listed",
    "pubend_rows",
    "show",
    "show_table",
    "status",
    "stream_rows",
    "targets",
    "with_answers_of_homes",
]

EXAMPLES = """
Ends with 1 if a broker could not be asked.

Examples:

- `penstock status overlay.toml`
- `penstock status penstock://127.0.0.1:7001 --json | jq .[0].status.counts`
"""

_CONNECT_MS: Final = 3_000
_ANSWER_S: Final = 5.0
_COLUMNS: Final = {
    "broker": "left",
    "address": "left",
    "links": "left",
    **dict.fromkeys(("clients", "subs", "published", "forwarded", "delivered", "dropped", "outbox B"), "right"),
}
_PUBENDS: Final = {
    "pubend": "left",
    "broker": "left",
    "last tick": "left",
    "log B": "right",
    "trimmed below": "left",
    "held back": "left",
    "hosts behind": "left",
}
_STREAMS: Final = {"host": "left", "pubend": "left", "horizon": "left", "behind": "right", "catch-ups": "right"}
_DURABLES: Final = {
    "name": "left",
    "pubend": "left",
    "host": "left",
    "acknowledged": "left",
    "behind": "right",
    "pending": "right",
}
_LAST_VALUES: Final = {
    "pubend": "left",
    "broker": "left",
    "key": "left",
    "keys": "right",
    "bytes": "right",
    "dropped": "right",
    "damaged": "right",
}
_DURABLES_SHOWN: Final = 20
"""Durable subscriptions shown, those furthest behind first; the JSON has all that the brokers report."""
_HOSTS_SHOWN: Final = 5
"""Hosts named in the row of a pubend, those furthest behind first; the others are only counted."""


@dataclass(slots=True, frozen=True)
class Asked:
    """One broker, with its status or why it could not be asked."""

    name: str
    url: str
    links: tuple[str, ...] = ()
    """The neighbours it should have; empty if unknown."""
    status: BrokerStatus | None = None
    problem: str = ""
    beside: str = ""
    """Of a home: the broker that runs it."""


def status(
    target: Annotated[
        str, typer.Argument(metavar="URL|OVERLAY.TOML", help="One broker, or the file that describes all of them.")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Show brokers with their links, clients and counts; those that do not answer are shown as unreachable.

    The home of a pubend with candidates is a broker, too: it is shown after the broker that runs it.

    For guaranteed pubends it shows the log and how far behind hosts are; for their streams, how far hosts have
    delivered; for groups, what is not done, and how much of it each member has; for congestion control, the rates of
    pubends, who limits them, and how the streams of hosts move; for balancing, loads and states, the current session,
    and who moved where and why.
    """
    given = Party(token, name, ca, certificate, key)
    answers = run(ask_all(list(targets(target, given))))
    if as_json:
        listed = [
            {"name": each.name, "url": each.url, "status": each.status, "problem": each.problem} for each in answers
        ]
        console.json(listed)
    else:
        show(answers)
    if any(each.status is None for each in answers):
        raise typer.Exit(FAILURE)


def show(answers: list[Asked]) -> None:
    """Print the tables of all brokers, and what is wrong."""
    answered = {each.name: each.status for each in answers if each.status is not None}
    statuses = with_homes(answered)
    for title, columns, rows in (
        ("brokers", _COLUMNS, [_row(each) for each in with_answers_of_homes(answers)]),
        ("pubends with candidates", HOLDINGS, list(holding_rows(holdings(answered)))),
        ("guaranteed pubends", _PUBENDS, list(pubend_rows(statuses))),
        ("last values beyond logs", _LAST_VALUES, list(last_values_rows(statuses))),
        ("streams", _STREAMS, list(stream_rows(statuses))),
        ("durable subscriptions", _DURABLES, list(durable_rows(statuses))),
        ("groups", GROUPS, list(group_rows(statuses))),
        ("congestion: rates of pubends", RATES, list(rate_rows(statuses))),
        ("congestion: streams of hosts", STREAMS, list(status_rows.stream_rows(statuses))),
        ("balancing", BALANCING, list(balancing_rows(statuses))),
    ):
        if rows:
            show_table(title, columns, rows)
    for each in answers:
        if each.problem:
            console.note(f"{each.name or each.url}: {each.problem}")
    for name, told in statuses.items():
        if reason := told.guaranteed.held_back:
            console.note(f"{name} holds publishers back: {reason}")


def with_answers_of_homes(answers: Sequence[Asked]) -> Iterator[Asked]:
    """Yield all brokers, each followed by the homes that it runs."""
    statuses = with_homes({each.name: each.status for each in answers if each.status is not None})
    for each in answers:
        yield each
        for home, told in ({} if each.status is None else each.status.homes).items():
            if statuses[home] is told:
                yield Asked(home, each.url, status=told, beside=each.name)


def show_table(title: str, columns: Mapping[str, str], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table; as paragraphs if the terminal is too narrow for it."""
    width = shutil.get_terminal_size().columns
    if sys.stdout.isatty() and _table_width(columns, rows) > width:
        # A table with wrapped cells is worse than none.
        console.line(printable(f"{title}\n" + "\n".join(listed(columns, rows, width=width))))
    else:
        console.table(title, columns, iter(rows))


def _table_width(columns: Mapping[str, str], rows: Sequence[tuple[str, ...]]) -> int:
    cells = [[heading, *more] for heading, *more in zip(columns, *rows, strict=True)]
    return 1 + sum(3 + max(len(line) for cell in column for line in cell.split("\n")) for column in cells)


def listed(columns: Mapping[str, str], rows: Sequence[tuple[str, ...]], *, width: int) -> Iterator[str]:
    """The rows of a table as paragraphs, for a terminal that is too narrow for it."""
    for row in rows:
        first, *others = [
            f"{heading} {', '.join(cell.splitlines()) or '-'}" for heading, cell in zip(columns, row, strict=True)
        ]
        text = f"{first}: {'; '.join(others)}"
        yield from textwrap.wrap(text, max(width, 20), initial_indent="  ", subsequent_indent="    ")


def targets(target: str, given: Party) -> Iterator[tuple[Asked, Party]]:
    """The brokers that a URL or an overlay file names, each with the identity to use for it."""
    if "://" in target:
        yield from ((Asked("", str(each)), given) for each in parse_addresses(target))
        return
    # Only where it is used: it brings all settings of a broker, and takes most of a second to load.
    from penstock.live.config import load_overlay

    overlay = load_overlay(target)
    for place in overlay.brokers.values():
        url = str(Address(place.host, place.port, place.tls is not None))
        # Homes have a link to whoever runs them; that the other candidates have none is as it should be.
        links = tuple(each for each in overlay.neighbours_of(place.name) if each not in overlay.homes)
        yield Asked(place.name, url, links), _party_at(place, given)


def _party_at(place: BrokerPlace, given: Party) -> Party:
    """The identity to use at a broker: with the authority that the overlay file names, unless one was given."""
    if place.tls is None or given.ca is not None:
        return given
    return Party(given.token, given.name, place.tls.ca, given.certificate, given.key)


async def ask_all(targets: list[tuple[Asked, Party]]) -> list[Asked]:
    """Ask all brokers at once; each result has a status or a problem."""
    return await asyncio.gather(*(_ask(asked, party) for asked, party in targets))


async def _ask(asked: Asked, party: Party) -> Asked:
    try:
        async with party.client(asked.url, connect_ms=_CONNECT_MS) as client, asyncio.timeout(_ANSWER_S):
            answer = await client.status()
    except TimeoutError:
        return Asked(asked.name, asked.url, problem=f"did not answer within {_ANSWER_S:.0f} s")
    except ClientError as error:
        return Asked(asked.name, asked.url, problem=str(error))
    return Asked(answer.broker, asked.url, asked.links, answer)


def _row(asked: Asked) -> tuple[str, ...]:
    if asked.status is None:
        return asked.name or "?", _address(asked), "unreachable", *[""] * (len(_COLUMNS) - 3)
    figures, counts = asked.status, asked.status.counts
    numbers = (
        figures.clients,
        figures.subscriptions,
        counts.get("published", 0),
        counts.get("forwarded", 0),
        counts.get("delivered", 0),
        sum(figures.dropped.values()),
        figures.outbox_bytes,
    )
    return asked.name, _address(asked), _links(asked), *(f"{each:,}" for each in numbers)


def _address(asked: Asked) -> str:
    if asked.beside:
        # A home listens nowhere.
        return f"in {asked.beside}"
    # A table of brokers has no room for the part that is the same in every row.
    return asked.url.partition("://")[2]


def _links(asked: Asked) -> str:
    assert asked.status is not None
    up = asked.status.links
    down = [f"{each} (down)" for each in asked.links if each not in up]
    return ", ".join([*up, *down]) or "none"


def pubend_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """Rows of guaranteed pubends, from statuses by broker."""
    for name, told in statuses.items():
        held_back = "yes" if told.guaranteed.held_back else "no"
        for pubend, figures in told.guaranteed.pubends.items():
            last, trimmed = _time(figures.last_tick), _time(figures.trimmed_below)
            yield pubend, name, last, f"{figures.size_bytes:,}", trimmed, held_back, _hosts(figures)


def last_values_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """Rows of pubends that keep last values of what was trimmed, from statuses by broker."""
    for name, told in statuses.items():
        for pubend, figures in told.guaranteed.pubends.items():
            kept = figures.last_values
            if kept is not None:
                numbers = (kept.keys, kept.size_bytes, kept.dropped, kept.damaged)
                yield pubend, name, kept.key, *(f"{each:,}" for each in numbers)


def stream_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """Rows of the streams that hosts deliver to their clients, from statuses by broker."""
    # A host that hears nothing of a pubend does not know how far behind it is; the pubend's own broker does.
    newest = {
        pubend: figures.last_tick for told in statuses.values() for pubend, figures in told.guaranteed.pubends.items()
    }
    for name, told in statuses.items():
        for pubend, figures in told.guaranteed.streams.items():
            behind = _behind(max(newest.get(pubend, 0), figures.heard), figures.horizon)
            yield name, pubend, _time(figures.horizon), behind, f"{figures.catch_ups:,}"


def durable_rows(statuses: Mapping[str, BrokerStatus]) -> Iterator[tuple[str, ...]]:
    """Rows of the durable subscriptions that pubends keep, from statuses by broker."""
    found = [
        (figures.last_tick - each.tick, name, pubend, each, figures.last_tick)
        for told in statuses.values()
        for pubend, figures in told.guaranteed.pubends.items()
        for name, each in figures.durables.items()
    ]
    for _, name, pubend, each, last_tick in sorted(found, key=lambda one: (-one[0], one[1:3]))[:_DURABLES_SHOWN]:
        hosted = statuses[each.host].guaranteed.durables if each.host in statuses else {}
        pending = f"{hosted[name].get(pubend, 0):,}" if name in hosted else ""
        yield name, pubend, each.host, _time(each.tick), _behind(last_tick, each.tick), pending


def _hosts(figures: PubendStatus) -> str:
    """One line per host, so that a narrow terminal does not separate a name from its figure."""
    hosts = sorted(figures.hosts.items(), key=lambda each: (each[1], each[0]))
    shown = [f"{host} {_behind(figures.last_tick, tick)}" for host, tick in hosts[:_HOSTS_SHOWN]]
    more = [f"and {len(hosts) - _HOSTS_SHOWN:,} more"] if len(hosts) > _HOSTS_SHOWN else []
    return "\n".join([*shown, *more]) or "none"


def _time(tick: int) -> str:
    """The time of a tick to the second; a narrow table breaks it between date and time."""
    return format_tick(Tick(tick)).partition(".")[0].replace("T", " ") if tick else "nothing"


def _behind(last_tick: int, next_tick: int) -> str:
    """How far a position, the first tick still wanted, is behind the last tick."""
    seconds = max(0, tick_ms(Tick(last_tick)) - tick_ms(Tick(next_tick))) / 1_000
    # The no-break space keeps the figure and its unit on one line.
    return f"{seconds:,.1f}\u00a0s"
