"""``penstock store``: looks after the data of a broker: checks, salvages, backs up, restores and moves it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from penstock.cli.console import FAILURE, console
from penstock.cli.store_backup import BACKUP_EXAMPLES, RESTORE_EXAMPLES, Folder, backup, restore
from penstock.cli.store_copy import COPY_EXAMPLES, copy
from penstock.live.store.checking import Checked
from penstock.live.store.checking import check as check_store
from penstock.live.store.errors import StoreRefusedError
from penstock.live.store.salvage import salvage as salvage_store
from penstock.model.tick import TickRange, format_tick

__all__ = ["app"]

_RANGES_MAX = 10
"""Tick ranges printed per pubend; the rest are only counted."""
_CHECK_EXAMPLES = """
Ends with 1 if anything is damaged. Nothing is changed.

Examples:

- `penstock store check data/pb1`
- `penstock store check data/pb1 --json`
"""
_SALVAGE_EXAMPLES = """
The damaged files are put aside in a folder `damaged-…` beside the new ones, which needs as much space again.

Examples:

- `penstock store salvage data/pb1`
- `penstock store salvage data/pb1 --pubend pb1.a --pubend pb1.b`
- `penstock store salvage data/pb1 --overlay quotes --broker pb1 --pubend pb1.a`
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="The durable data of a broker: check, repair, back up, restore and move it.",
)


@app.command("check", epilog=_CHECK_EXAMPLES)
def check(
    folder: Folder,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Read a whole store, and report what is damaged."""
    checked = check_store(folder)
    if as_json:
        console.json(_as_json(checked))
    else:
        _print_checked(checked)
    if not checked.is_whole:
        raise typer.Exit(FAILURE)


def _as_json(checked: Checked) -> dict[str, object]:
    return {
        "folder": checked.folder,
        "format": checked.format,
        "whole": checked.is_whole,
        "problems": checked.problems,
        "notes": checked.notes,
        "damaged": {name: [list(ticks) for ticks in ranges] for name, ranges in checked.damaged.items()},
        "records": checked.records,
        "messages": checked.messages,
    }


def _print_checked(checked: Checked) -> None:
    for problem in checked.problems:
        console.line(f"damaged: {problem}")
    for name, ranges in checked.damaged.items():
        _print_ranges(f"damaged: messages of pubend {name}", ranges)
    for record in checked.records:
        console.line(f"damaged: {record}")
    for note in checked.notes:
        console.line(f"note: {note}")
    if checked.problems:
        console.line(f"no broker opens this store: restore a copy, or run 'penstock store salvage {checked.folder}'")
    elif checked.is_whole:
        console.line(f"the store in {checked.folder} is whole: format {checked.format}, {checked.messages:,} messages")
    else:
        console.line("a broker opens this store, serves the rest, and tells subscribers what they lose")


def _print_ranges(title: str, ranges: list[TickRange]) -> None:
    for ticks in ranges[:_RANGES_MAX]:
        console.line(f"{title}: ticks {ticks.first} to {ticks.last} ({_span(ticks)})")
    if len(ranges) > _RANGES_MAX:
        console.line(f"{title}: {len(ranges) - _RANGES_MAX:,} more ranges")


def _span(ticks: TickRange) -> str:
    return f"{format_tick(ticks.first)} to {format_tick(ticks.last)}"


@app.command("salvage", epilog=_SALVAGE_EXAMPLES)
def salvage(
    folder: Folder,
    *,
    pubends: Annotated[
        list[str] | None,
        typer.Option("--pubend", help="A pubend of this broker; name all of them if salvage asks for it."),
    ] = None,
    overlay: Annotated[str, typer.Option(help="The name of the overlay, if asked for.")] = "",
    broker: Annotated[str, typer.Option(help="The name of the broker, if asked for.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Salvage even if a broker can open the store.")] = False,
) -> None:
    """Build a new store from the intact parts of a damaged one, and mark the rest as lost.

    Subscribers are told of every lost tick that may have had a message; streams continue above those ticks.
    """
    if not force and not check_store(folder).problems:
        raise StoreRefusedError(f"a broker can open the store in {folder}, there is nothing to salvage")
    owner = (overlay, broker) if overlay and broker else None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    now_ms = time.time_ns() // 1_000_000
    done = salvage_store(folder, stamp=stamp, now_ms=now_ms, owner=owner, pubends=pubends or ())
    console.line(f"{done.messages:,} messages are whole; the damaged files are in {done.aside}")
    for name, ranges in done.lost.items():
        _print_ranges(f"may be lost: messages of pubend {name}", ranges)
    for doubt in done.doubts:
        console.line(f"may be lost: {doubt}")


app.command("backup", epilog=BACKUP_EXAMPLES)(backup)
app.command("restore", epilog=RESTORE_EXAMPLES)(restore)
app.command("copy", epilog=COPY_EXAMPLES)(copy)
