"""``penstock drain``: moves the clients of a broker to other brokers, and stops it when they have left."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer

from penstock.cli.admin import AdminError, call_admin
from penstock.cli.console import FAILURE, console
from penstock.live.config import load_overlay
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.model.errors import MisuseError, PenstockError

__all__ = ["EXAMPLES", "DrainError", "drain"]

EXAMPLES = """
Brokers are asked at their `admin_port`. Clients go to the other running brokers of the same kind (with pubends or
without), or to any if there are none, those with the fewest clients first; their applications notice nothing. Pinned
clients stay. While any client stays, the broker keeps running but accepts no new
clients; `--force` stops it all the same, and `--cancel` lets clients in again. Ends with 1 unless the broker was
stopped.

Examples:

- `penstock drain overlay.toml sb1`
- `penstock drain overlay.toml sb1 --to sb2 --to sb3`
- `penstock drain overlay.toml pb1 --force`
"""
_POLL_S: Final = 0.2
_WITHOUT: Final = "give it one, to be asked there"


class DrainError(PenstockError):
    """A broker could not be drained, or could not be reached."""


def drain(
    file: Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")],
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="The broker that is to stop.")],
    *,
    to: Annotated[
        list[str] | None, typer.Option("--to", metavar="NAME", help="Where clients are to go; may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Stop it also if clients stay.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Let clients in again, and do not stop it.")] = False,
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long clients may take to go.")] = 120.0,
) -> None:
    """Move the clients of a broker to other brokers, then stop it."""
    overlay = load_overlay(file)
    place = overlay.place_of(broker)
    if cancel:
        _call(overlay, place, "POST", "/drain")
        console.line(f"{broker} lets clients in again")
        return
    targets = _targets(overlay, place, to or [])
    names = ", ".join(name for name, _ in targets)
    console.note(f"the clients of {broker} go to {names}")
    query = urlencode([("to", target) for _, target in targets])
    _call(overlay, place, "POST", f"/drain?{query}")
    told = _watch(overlay, place, wait)
    stays = int(told["clients"])
    if stays and not force:
        _explain(broker, told)
        raise typer.Exit(FAILURE)
    _call(overlay, place, "POST", "/finish")
    console.line(f"{broker} stops: {told['left']} clients have gone to {names}, {stays} stayed")


def _targets(overlay: Overlay, place: BrokerPlace, named: list[str]) -> list[tuple[str, str]]:
    """The brokers that can take clients: each name, and ``name=clients`` as the admin port expects it."""
    if place.name in named:
        raise MisuseError(f"broker {place.name} is to stop, and cannot take its own clients")
    if named:
        candidates = [overlay.place_of(name) for name in dict.fromkeys(named)]
    else:
        # Those of the same kind if there are any: each takes whatever a client does, but was planned for some of it.
        others = [each for each in overlay.brokers.values() if each.name != place.name]
        kind = _has_pubends(overlay, place)
        candidates = [each for each in others if _has_pubends(overlay, each) == kind] or others
    counted = [(each, _clients(overlay, each)) for each in candidates]
    found = [(each.name, f"{each.name}={clients}") for each, clients in counted if clients is not None]
    if not found:
        tried = ", ".join(each.name for each in candidates) or "there is no other broker"
        raise DrainError(
            f"no broker can take the clients of {place.name}: {tried} (not running, draining, or without admin_port)"
        )
    return found


def _has_pubends(overlay: Overlay, place: BrokerPlace) -> bool:
    """Whether the broker has pubends, or may run some."""
    return bool(place.pubends or overlay.candidate_for(place.name))


def _clients(overlay: Overlay, place: BrokerPlace) -> int | None:
    """How many clients a broker has; None if it cannot be reached or is draining itself."""
    try:
        told = call_admin(overlay, place, "GET", "/drain", without=_WITHOUT)
    except AdminError as error:
        console.note(f"{place.name} takes nobody: {error}")
        return None
    return None if told["drain"].get("on") else int(told["drain"].get("clients", 0))


def _watch(overlay: Overlay, place: BrokerPlace, wait_s: float) -> dict[str, Any]:
    """Wait until every client that can leave has left, or time is up; return the last state."""
    end_s, shown = time.monotonic() + wait_s, None
    while True:
        told: dict[str, Any] = _call(overlay, place, "GET", "/drain")["drain"]
        if (told["left"], told["clients"]) != shown:
            shown = (told["left"], told["clients"])
            console.note(f"{told['left']} have gone, {told['clients']} are there")
        if not told["going"] or time.monotonic() >= end_s:
            return told
        time.sleep(_POLL_S)


def _explain(broker: str, told: dict[str, Any]) -> None:
    kinds = ", ".join(f"{count} {kind}" for kind, count in told["staying"].items())
    going = f"{told['going']} still on their way" if told["going"] else ""
    console.note(f"{broker} was not stopped: {'; '.join(filter(None, (kinds, going)))}")
    for reason in told["reasons"]:
        console.note(f"  {reason}")
    console.note("pinned clients do not move; stop them, or stop the broker with --force")


def _call(overlay: Overlay, place: BrokerPlace, method: str, path: str) -> dict[str, Any]:
    try:
        told = call_admin(overlay, place, method, path, without=_WITHOUT)
    except AdminError as error:
        raise DrainError(f"broker {place.name} cannot be asked: {error}") from None
    if told["result"] == "refused":
        raise DrainError(f"broker {place.name} refuses: {told.get('reason', '')}")
    return told
