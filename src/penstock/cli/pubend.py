"""``penstock pubend``: lists all pubends with who runs them, and moves those with candidates between brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
import typer

from penstock.cli.admin import Answer, ask, ask_all
from penstock.cli.console import FAILURE, console
from penstock.cli.holdings import HOLDINGS, Holding, holding_of, holding_rows
from penstock.cli.status import show_table
from penstock.live.config import load_overlay
from penstock.live.overlay import Home, Overlay
from penstock.model.errors import MisuseError, PenstockError
from penstock.protocol.status import CandidacyStatus

__all__ = ["PubendError", "app"]

_LIST_EXAMPLES = """
Brokers are asked at their `admin_port`. *replicas* is how many synchronous standbys of the database each commit waits
for. Ends with 1 if a broker could not be asked.

Examples:

- `penstock pubend list overlay.toml`
- `penstock pubend list overlay.toml --json | jq '.[] | select(.holder == "") | .pubend'`
"""
_MOVE_EXAMPLES = """
The candidate is asked at its `admin_port` first: nothing moves to one that does not answer, or cannot reach the
database. The broker that runs the pubend finishes what it has begun; publishers and subscribers go on where they were.
Ends with 1 if the pubend is not there in time; the request lapses then, and it stays where it is.

Examples:

- `penstock pubend move overlay.toml quotes pb2`
- `penstock pubend move overlay.toml quotes pb2 --no-wait`
"""
_WITHOUT: Final = "give it one, to be asked there"
_POLL_S: Final = 0.02
_PATH: Final = "/pubend"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Pubends: who runs them, and moving those that have several candidates (`[pubends.NAME] brokers`).",
)

_File = Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")]


class PubendError(PenstockError):
    """A pubend could not be moved."""


@dataclass(slots=True, frozen=True)
class _Told:
    """The answer of a broker: the pubends that it has or may run, or why it did not tell."""

    pubends: Mapping[str, CandidacyStatus]
    problem: str = ""


@app.command("list", epilog=_LIST_EXAMPLES)
def list_(file: _File, *, as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False) -> None:
    """List all pubends: their brokers or candidates, where they run, in which epoch, and what is wrong."""
    overlay = load_overlay(file)
    answers = ask_all(overlay, overlay.brokers.values(), "GET", _PATH, {}, without=_WITHOUT)
    told = {each.name: _told(each) for each in answers}
    found = list(_holdings(overlay, told))
    if as_json:
        console.json([asdict(each) for each in found])
    else:
        show_table(f"pubends of {overlay.name}", HOLDINGS, list(holding_rows(found)))
    if any(each.problem for each in told.values()):
        raise typer.Exit(FAILURE)


@app.command("move", epilog=_MOVE_EXAMPLES)
def move(
    file: _File,
    pubend: Annotated[str, typer.Argument(metavar="PUBEND", help="The pubend; it must have candidates.")],
    to: Annotated[str, typer.Argument(metavar="BROKER", help="The candidate that is to run it.")],
    *,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask for it, and do not wait until it is there.")] = False,
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long it may take.")] = 30.0,
) -> None:
    """Move a pubend to another of its candidates."""
    overlay = load_overlay(file)
    home = _home(overlay, pubend, to)
    before = _checked(overlay, home, to)
    asked_s = time.monotonic()
    query = urlencode({"pubend": pubend, "to": to})
    answer = ask(overlay, overlay.place_of(to), "POST", f"{_PATH}?{query}", without=_WITHOUT)
    if answer.result != "done":
        raise PubendError(f"broker {to} cannot ask for {pubend}: {answer.reason or answer.result}")
    if no_wait:
        console.line(f"{pubend} is asked to move from {before} to {to}")
        return
    there = _awaited(overlay, pubend, to, until_s=asked_s + wait)
    console.line(
        f"{pubend} runs at {to} in epoch {there.epoch}: it took {time.monotonic() - asked_s:.2f} s from {before}"
    )


def _home(overlay: Overlay, pubend: str, to: str) -> Home:
    """The home of the pubend, if it may move to that broker; raises ``MisuseError``."""
    known = overlay.pubends()
    if pubend not in known:
        raise MisuseError(f"there is no pubend {pubend!r} in overlay {overlay.name}; there are: {', '.join(known)}")
    home = overlay.homes.get(Home.name_for(pubend))
    if home is None:
        raise MisuseError(
            f"pubend {pubend} belongs to broker {known[pubend][0]} and cannot move: it has no candidates "
            f"([pubends.{pubend}] brokers)"
        )
    if to not in home.candidates:
        raise MisuseError(f"{to!r} is no candidate for {pubend}; there are: {', '.join(home.candidates)}")
    return home


def _checked(overlay: Overlay, home: Home, to: str) -> str:
    """Where the pubend is now, if it can move to that broker; raises ``PubendError``."""
    places = [overlay.place_of(name) for name in home.candidates]
    told = {each.name: _told(each) for each in ask_all(overlay, places, "GET", _PATH, {}, without=_WITHOUT)}
    if all(each.problem for each in told.values()):
        reasons = "; ".join(f"{name}: {each.problem}" for name, each in told.items())
        raise PubendError(f"no candidate for {home.pubend} can be asked: {reasons}")
    if told[to].problem:
        raise PubendError(f"{home.pubend} stays where it is: broker {to} cannot be asked: {told[to].problem}")
    target = told[to].pubends.get(home.pubend)
    if target is None or to not in target.candidates:
        raise PubendError(f"{home.pubend} stays where it is: {to} was started with a file in which it is no candidate")
    if target.epoch:
        raise PubendError(f"{home.pubend} runs at {to} already, in epoch {target.epoch}")
    if target.problem:
        raise PubendError(f"{home.pubend} stays where it is: {to} could not run it: {target.problem}")
    now = _holding(home, told)
    return now.holder or now.heard or "nobody"


def _awaited(overlay: Overlay, pubend: str, to: str, *, until_s: float) -> CandidacyStatus:
    """Wait until the pubend runs at that broker; raises ``PubendError`` when time is up."""
    place, problem = overlay.place_of(to), ""
    while True:
        told = _told(ask(overlay, place, "GET", _PATH, without=_WITHOUT))
        found = told.pubends.get(pubend, CandidacyStatus(pubend))
        if found.epoch:
            return found
        problem = told.problem or found.problem or problem
        if time.monotonic() >= until_s:
            raise PubendError(
                f"{pubend} is not at {to} yet{f': {problem}' if problem else ''}; see penstock pubend list"
            )
        time.sleep(_POLL_S)


def _told(answer: Answer) -> _Told:
    if answer.result != "told":
        return _Told({}, answer.reason or answer.result)
    try:
        found = msgspec.convert(answer.told.get("pubends", []), list[CandidacyStatus])
    except msgspec.ValidationError:
        return _Told({}, "it told something else: is it of another version?")
    return _Told({each.pubend: each for each in found})


def _holdings(overlay: Overlay, told: Mapping[str, _Told]) -> Iterator[Holding]:
    """All pubends in the order of the file: those of single brokers first."""
    for name, place in overlay.brokers.items():
        answer = told[name]
        for pubend in place.pubends:
            problems = {name: answer.problem} if answer.problem else {}
            found = answer.pubends.get(pubend, CandidacyStatus(pubend))
            yield Holding(
                pubend,
                candidates=(name,),
                holder="" if answer.problem else name,
                replicas=found.replicas,
                held_back=found.held_back,
                problems=problems,
            )
    for home in overlay.homes.values():
        yield _holding(home, told)


def _holding(home: Home, told: Mapping[str, _Told]) -> Holding:
    """A pubend with candidates, and which of them did not answer."""
    known = {
        name: told[name].pubends.get(home.pubend, CandidacyStatus(home.pubend))
        for name in home.candidates
        if not told[name].problem
    }
    silent = {name: told[name].problem for name in home.candidates if told[name].problem}
    found = holding_of(home.pubend, known)
    return replace(found, candidates=home.candidates, problems={**found.problems, **silent})
