"""``penstock token``: shows the token that wanders between the brokers of an overlay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token
from penstock.cli.console import FAILURE, console
from penstock.cli.status import Asked, ask_all, targets, with_answers_of_homes
from penstock.protocol.status import TokenStatus
from penstock.system.loop import run

__all__ = ["app", "rows"]

_EXAMPLES: Final = """
Ends with 1 if a broker could not be asked. Overloaded means that one round of operations takes longer than the least
interval between two operations of a broker (load above 1): the intervals grow then.

Examples:

- `penstock token status overlay.toml`
- `penstock token status overlay.toml --json | jq '.[].token.k_load'`
"""
_COLUMNS: Final = {
    "broker": "left",
    "token": "left",
    **dict.fromkeys(("brokers", "load", "op", "min", "max"), "right"),
    **dict.fromkeys(("operations", "skips", "made", "discarded", "overlaps", "late"), "right"),
    "last": "left",
}
_COUNTS: Final = ("operations", "skips", "regenerations", "discards", "overlaps", "overruns")

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="The wandering token, by which brokers do heavy work about one at a time: `[token]` in the overlay file.",
)


@app.callback()
def _group() -> None:
    # Without a callback, typer would drop the name of a single command.
    pass


@app.command("status", epilog=_EXAMPLES)
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
    """Show where the token is, its time constants and load, and what each broker has counted."""
    asked = run(ask_all(list(targets(target, Party(token, name, ca, certificate, key)))))
    # Homes are members of the group, too.
    answers = list(with_answers_of_homes(asked))
    if as_json:
        console.json([{"name": each.name, "token": _figures(each), "problem": each.problem} for each in answers])
    else:
        _show(answers)
    if any(each.status is None for each in answers):
        raise typer.Exit(FAILURE)


def rows(answers: Sequence[Asked]) -> Iterator[tuple[str, ...]]:
    """One row per broker, also for those that know of no token."""
    for each in answers:
        found = _status(each)
        if found is None:
            yield (each.name, "none" if each.status is not None else "?", *[""] * (len(_COLUMNS) - 2))
            continue
        where = "operates" if found.operating else "holds it" if found.holding else ""
        times = (f"{time_ms / 1000:g} s" for time_ms in (found.op_ms, found.min_ms, found.max_ms))
        counts = (f"{getattr(found, name):,}" for name in _COUNTS)
        load = f"{found.k_load:.2f}" + (" !" if found.overloaded else "")
        yield each.name, where, f"{found.members:,}", load, *times, *counts, found.fence


def _show(answers: Sequence[Asked]) -> None:
    console.table("the wandering token", _COLUMNS, rows(answers))
    for each in answers:
        if each.problem:
            console.note(f"{each.name or each.url}: {each.problem}")
        found = _status(each)
        if found is None:
            continue
        if found.overloaded:
            console.note(f"{each.name}: overloaded, {found.members} brokers want more than there is time for")
        for peer, error_ms in found.clock_faults.items():
            console.note(f"{each.name}: the clock of {peer} differs by {error_ms:,} ms")


def _figures(asked: Asked) -> Mapping[str, Any]:
    """The figures as the broker reported them, with those that only its version has."""
    return {} if asked.status is None else asked.status.mechanisms.get("token", {})


def _status(asked: Asked) -> TokenStatus | None:
    return None if asked.status is None else asked.status.token
