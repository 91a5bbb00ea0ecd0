"""``penstock ship``: makes brokers ship their records to the lake now, without waiting for their interval."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from penstock.cli.admin import Answer, ask
from penstock.cli.console import FAILURE, console
from penstock.live.config import load_overlay
from penstock.model.errors import MisuseError

__all__ = ["EXAMPLES", "ship"]

EXAMPLES = """
Each broker ships what is durable at it: what was recorded in the last second may follow later. So do the homes of
pubends that it runs. Brokers are asked at their `admin_port`, one after the other. Ends with 1 unless all have
shipped all that waited.

Examples:

- `penstock ship overlay.toml --now`
- `penstock ship overlay.toml --now --broker pb1 --json`
"""
_SHIP_S_MAX: Final = 60.0
_WITHOUT: Final = "it ships by itself, every interval"
_COLUMNS: Final = {
    **dict.fromkeys(("broker", "result"), "left"),
    **dict.fromkeys(("files", "rows", "bytes"), "right"),
    "what": "left",
}


def ship(
    file: Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")],
    *,
    now: Annotated[bool, typer.Option("--now", help="Ship at once; without it nothing is done.")] = False,
    broker: Annotated[str, typer.Option("--broker", metavar="NAME", help="Only this broker.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ship the records of brokers to the lake."""
    overlay = load_overlay(file)
    if not now:
        raise MisuseError("brokers ship by themselves; say --now to let them ship at once")
    if overlay.ship is None:
        raise MisuseError(f"{file} names no lake; add a table [ship] with lake = a folder")
    places = [overlay.place_of(broker)] if broker else list(overlay.brokers.values())
    # One after the other: they all write to the same disks.
    asked = [ask(overlay, each, "POST", "/ship", seconds_max=_SHIP_S_MAX, without=_WITHOUT) for each in places]
    answers = [answer for each in asked for answer in (each, *_homes(each))]
    if as_json:
        console.json([_told(each) for each in answers])
    else:
        console.table(f"shipped to {overlay.ship.lake}", _COLUMNS, map(_row, answers))
    if not all(map(_is_fine, answers)):
        raise typer.Exit(FAILURE)


def _homes(answer: Answer) -> list[Answer]:
    """What the homes of pubends have shipped that run beside a broker."""
    found: dict[str, Any] = answer.told.get("homes", {})
    return [Answer(name, answer.result, told={"shipped": shipped}) for name, shipped in found.items()]


def _told(answer: Answer) -> dict[str, Any]:
    return {"name": answer.name, "result": answer.result, "reason": answer.reason, "shipped": _shipped(answer)}


def _shipped(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = answer.told.get("shipped", {})
    return found


def _is_fine(answer: Answer) -> bool:
    """Whether the broker has shipped everything it had."""
    return answer.result == "shipped" and bool(_shipped(answer).get("is_all"))


def _row(answer: Answer) -> tuple[str, ...]:
    figures = (f"{_shipped(answer).get(key, 0):,}" for key in ("files", "rows", "size_bytes"))
    left = "" if _is_fine(answer) or answer.reason else "there is more than fits one turn; ask again"
    return answer.name, answer.result, *figures, answer.reason or left
