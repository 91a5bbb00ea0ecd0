"""``penstock ship``: lets brokers ship to the lake what they have on record, without waiting for their interval."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.cli.admin_calls import AdminError, call_admin
from penstock.cli.console import FAILURE, console
from penstock.live.config import load_overlay
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.model.errors import MisuseError

__all__ = ["EXAMPLES", "ship"]

EXAMPLES = """
Each broker ships what is durable at it: what was recorded in the last second may follow later. Brokers are asked at
their `admin_port`, with the `admin_token` of the file, one after the other. Ends with 1 unless all have shipped all
that waited.

Examples:

- `penstock ship overlay.toml --now`
- `penstock ship overlay.toml --now --broker pb1 --json`
"""
_SHIP_S_MAX: Final = 60.0
_COLUMNS: Final = {
    **dict.fromkeys(("broker", "result"), "left"),
    **dict.fromkeys(("files", "rows", "bytes"), "right"),
    "what": "left",
}


@dataclass(slots=True, frozen=True)
class _Answer:
    """What came of asking one broker."""

    name: str
    result: str
    """``shipped``, ``failed``, ``refused`` or ``unreachable``."""
    reason: str = ""
    shipped: dict[str, Any] = field(default_factory=dict)

    @property
    def is_fine(self) -> bool:
        """Whether nothing waits any more."""
        return self.result == "shipped" and bool(self.shipped.get("is_all"))

    def row(self) -> tuple[str, ...]:
        """For people."""
        figures = (f"{self.shipped.get(key, 0):,}" for key in ("files", "rows", "size_bytes"))
        left = "" if self.is_fine or self.reason else "there is more than fits one turn; ask again"
        return self.name, self.result, *figures, self.reason or left


def ship(
    file: Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")],
    *,
    now: Annotated[bool, typer.Option("--now", help="Ship at once; without it nothing is done.")] = False,
    broker: Annotated[str, typer.Option("--broker", metavar="NAME", help="Only this broker.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ship what brokers have on record to the lake."""
    overlay = load_overlay(file)
    if not now:
        raise MisuseError("brokers ship by themselves; say --now to let them ship at once")
    if overlay.ship is None:
        raise MisuseError(f"{file} names no lake; add a table [ship] with lake = a folder")
    places = [overlay.place_of(broker)] if broker else list(overlay.brokers.values())
    # One after the other: they all write to the same disks.
    answers = [_ask(overlay, place) for place in places]
    if as_json:
        told = [asdict(each) for each in answers]
        console.line(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        console.table(f"shipped to {overlay.ship.lake}", _COLUMNS, (each.row() for each in answers))
    if not all(each.is_fine for each in answers):
        raise typer.Exit(FAILURE)


def _ask(overlay: Overlay, place: BrokerPlace) -> _Answer:
    without = "it ships by itself, every interval"
    try:
        told = call_admin(overlay, place, "POST", "/ship", seconds_max=_SHIP_S_MAX, without=without)
    except AdminError as error:
        return _Answer(place.name, error.result, str(error))
    return _Answer(place.name, told["result"], str(told.get("reason", "")), told.get("shipped", {}))
