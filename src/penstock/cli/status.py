"""``penstock status``: how brokers are, asked one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token
from penstock.cli.console import FAILURE, console
from penstock.client import Address, ClientError, parse_addresses
from penstock.live.config import load_overlay
from penstock.live.loop import run
from penstock.live.overlay import BrokerPlace

__all__ = ["EXAMPLES", "status"]

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


@dataclass(slots=True, frozen=True)
class _Asked:
    """One broker, and what came of asking it."""

    name: str
    url: str
    links: tuple[str, ...] = ()
    """The neighbours it should have; none if nobody knows."""
    status: dict[str, Any] | None = None
    problem: str = ""


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
    """Show brokers with their links, clients and counts; those that do not answer are shown as such."""
    given = Party(token, name, ca, certificate, key)
    answers = run(_ask_all(list(_targets(target, given))))
    if as_json:
        listed = [
            {"name": each.name, "url": each.url, "status": each.status, "problem": each.problem} for each in answers
        ]
        console.line(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
    else:
        console.table("brokers", _COLUMNS, map(_row, answers))
        for each in answers:
            if each.problem:
                console.note(f"{each.name or each.url}: {each.problem}")
    if any(each.status is None for each in answers):
        raise typer.Exit(FAILURE)


def _targets(target: str, given: Party) -> Iterator[tuple[_Asked, Party]]:
    if "://" in target:
        yield from ((_Asked("", str(each)), given) for each in parse_addresses(target))
        return
    overlay = load_overlay(target)
    for place in overlay.brokers.values():
        url = str(Address(place.host, place.port, place.tls is not None))
        yield _Asked(place.name, url, overlay.neighbours_of(place.name)), _party_at(place, given)


def _party_at(place: BrokerPlace, given: Party) -> Party:
    """Who knows the overlay's file knows its authority, too."""
    if place.tls is None or given.ca is not None:
        return given
    return Party(given.token, given.name, place.tls.ca, given.certificate, given.key)


async def _ask_all(targets: list[tuple[_Asked, Party]]) -> list[_Asked]:
    return await asyncio.gather(*(_ask(asked, party) for asked, party in targets))


async def _ask(asked: _Asked, party: Party) -> _Asked:
    try:
        async with party.client(asked.url, connect_ms=_CONNECT_MS) as client, asyncio.timeout(_ANSWER_S):
            answer = await client.status()
    except TimeoutError:
        return _Asked(asked.name, asked.url, problem=f"did not answer within {_ANSWER_S:.0f} s")
    except ClientError as error:
        return _Asked(asked.name, asked.url, problem=str(error))
    return _Asked(str(answer["broker"]), asked.url, asked.links, answer)


def _row(asked: _Asked) -> tuple[str, ...]:
    if asked.status is None:
        return asked.name or "?", _address(asked), "unreachable", *[""] * (len(_COLUMNS) - 3)
    figures, counts = asked.status, asked.status["counts"]
    numbers = (
        figures["clients"],
        figures["subscriptions"],
        *(counts[each] for each in ("published", "forwarded", "delivered")),
        sum(figures["dropped"].values()),
        figures["outbox_bytes"],
    )
    return asked.name, _address(asked), _links(asked), *(f"{each:,}" for each in numbers)


def _address(asked: _Asked) -> str:
    # A table of brokers has no room for the part that is the same in every row.
    return asked.url.partition("://")[2]


def _links(asked: _Asked) -> str:
    assert asked.status is not None
    up = asked.status["links"]
    down = [f"{each} (down)" for each in asked.links if each not in up]
    return ", ".join([*up, *down]) or "none"
