"""``penstock store copy``: moves the data of a broker, or of one pubend, between folders and databases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from penstock.cli.console import console
from penstock.cli.progress import ProgressReporter
from penstock.cli.store_backup import AsJson, Meter
from penstock.live.copying import Copied, CopyEnd, CopyOrder, copy_store
from penstock.live.overlay import is_url
from penstock.live.transfer import PubendFigures
from penstock.model.errors import MisuseError
from penstock.model.tick import Tick, format_tick

__all__ = ["COPY_EXAMPLES", "copy"]

COPY_EXAMPLES: Final = """
FROM and TO are data folders, or urls as `postgresql://db1,db2/penstock`; keep passwords out of them, in `~/.pgpass`. A
folder knows whose it is; for a database say it with `--overlay` and `--broker`. The broker must not run. TO must be
new: it gets all messages with their ticks, what was trimmed, the sequence numbers of publishers, the positions of
durable subscriptions, work queues and last values. What is damaged in FROM stays damaged, so that subscribers are told.
Then both are compared.

A pubend with candidates has a store of its own in the database, of its home: `quotes.home` for the pubend `quotes`.
`--pubend quotes` moves one pubend of a broker there; histories for traces stay with the broker that recorded them.
Point the overlay file to the new place afterwards, and never start a broker with the old one again. A store remembers
which pubends were copied from it with `--pubend`, and where to; brokers refuse to serve them from there.

Examples:

- `penstock store copy data/pb1 postgresql://db1,db2/penstock`
- `penstock store copy data/pb1 postgresql://db1,db2/penstock --pubend quotes`
- `penstock store copy postgresql://db1,db2/penstock data/pb1 --overlay site --broker quotes.home --for pb1`
- `penstock store copy data/pb1 /mnt/new/pb1`
"""
_COLUMNS: Final = {
    "pubend": "left",
    "messages": "right",
    "bytes": "right",
    "first tick": "left",
    "last tick": "left",
    "publishers": "right",
    "damaged": "right",
}


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The data folder or database to copy.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The folder to make, or the database.")],
    *,
    pubend: Annotated[str, typer.Option(metavar="NAME", help="Copy only this pubend.")] = "",
    overlay: Annotated[str, typer.Option(metavar="NAME", help="The overlay of the store in the database.")] = "",
    broker: Annotated[str, typer.Option(metavar="NAME", help="The broker of the store in the database.")] = "",
    new_broker: Annotated[str, typer.Option("--for", metavar="NAME", help="The broker that is to have TO.")] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Copy also what was copied elsewhere before; that copy must not be used.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the data of a broker that does not run to another folder or database, and compare the two."""
    from_database, to_database = is_url(source), is_url(target)
    if not from_database and not to_database and (overlay or broker):
        raise MisuseError("a folder knows whose it is: --overlay and --broker are for databases; see --for")
    begin = CopyEnd(_shown_path(source), overlay, broker if from_database else "")
    end = CopyEnd(_shown_path(target), overlay, new_broker or (broker if to_database and not from_database else ""))
    with _driver(), ProgressReporter() as reporter:
        order = CopyOrder(
            begin,
            end,
            pubend,
            is_again=again,
            on_copy=Meter(reporter, "copying"),
            on_compare=Meter(reporter, "comparing"),
            on_wait=_once(reporter.note),
        )
        copied = copy_store(order)
    if as_json:
        console.json(_as_dict(copied))
    else:
        _print(copied)


def _shown_path(text: str) -> str:
    if is_url(text):
        return text
    if "://" in text or re.match(r"\w+=", text):
        # A mistyped url would become a folder that has the password in its name.
        raise MisuseError("give a folder, or a url of PostgreSQL: postgresql://host1,host2/database")
    return str(Path(text).resolve())


@contextmanager
def _driver() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise MisuseError("psycopg is not installed; install it with: pip install 'penstock[postgres]'") from None


def _once(note: Callable[[str], None]) -> Callable[[str], None]:
    """Say each reason for waiting once, not ten times a second."""
    said: set[str] = set()

    def on_wait(reason: str) -> None:
        if reason and reason not in said:
            said.add(reason)
            note(f"waiting: {reason}")

    return on_wait


def _print(copied: Copied) -> None:
    figures = copied.figures
    console.table(
        f"broker {copied.source.broker} of overlay {copied.source.overlay}, copied for {copied.target.broker}",
        _COLUMNS,
        (_row(name, each) for name, each in figures.pubends.items()),
    )
    for damaged in figures.damaged:
        console.line(f"damaged, and so in the copy: {damaged}")
    records = f"{figures.kept:,} records" if copied.is_whole else "no histories for traces, which stay behind"
    console.line(f"{figures.values:,} named values, {records}")
    console.line(f"the copy in {copied.target.shown} is complete, and was compared")


def _row(name: str, figures: PubendFigures) -> tuple[str, ...]:
    return (
        name,
        f"{figures.messages:,}",
        f"{figures.size_bytes:,}",
        _tick(figures.first_tick),
        _tick(figures.last_tick),
        f"{figures.publishers:,}",
        str(len(figures.damaged) or ""),
    )


def _tick(tick: int | None) -> str:
    return "" if tick is None else format_tick(Tick(tick))


def _as_dict(copied: Copied) -> dict[str, Any]:
    figures = copied.figures
    return {
        "from": {"at": copied.source.shown, "overlay": copied.source.overlay, "broker": copied.source.broker},
        "to": {"at": copied.target.shown, "overlay": copied.target.overlay, "broker": copied.target.broker},
        "values": figures.values,
        "records": figures.kept if copied.is_whole else None,
        "damaged": figures.damaged,
        "pubends": {
            name: {
                "messages": each.messages,
                "bytes": each.size_bytes,
                "first_tick": each.first_tick,
                "last_tick": each.last_tick,
                "trimmed_below": each.trimmed_below,
                "lease": each.lease,
                "publishers": each.publishers,
                "damaged": [list(ticks) for ticks in each.damaged],
                "digest": each.messages_digest,
            }
            for name, each in figures.pubends.items()
        },
    }
