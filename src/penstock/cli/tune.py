"""``penstock tune``: shows and changes the parameters of congestion control of running brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.cli.admin import Answer, ask_all
from penstock.cli.console import FAILURE, console
from penstock.live.config import load_overlay
from penstock.live.overlay import Overlay
from penstock.model.errors import MisuseError

__all__ = ["EXAMPLES", "tune"]

EXAMPLES = """
Brokers are asked at their `admin_port`. They are all asked first whether they can
do it; if one cannot, none changes. Changes last until a broker restarts or applies a changed file: to make
them permanent, write them into the table `[congestion]`. The homes of pubends with candidates are tuned, too, at all
their candidates. Ends with 1 unless all brokers have done it.

Examples:

- `penstock tune overlay.toml --list`
- `penstock tune overlay.toml profile=swift`
- `penstock tune overlay.toml sample_ms=500 silence_limited_ms=500 --broker pb1 --broker sb1`
"""
_FINE: Final = ("applied", "changed", "unchanged")
_ANSWERS: Final = {"broker": "left", "result": "left", "what": "left"}
_COLUMNS: Final = {"parameter": "left", "value": "right", "unit": "left", "what it is": "left"}


def tune(
    file: Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Parameters and their new values.")
    ] = None,
    *,
    broker: Annotated[
        list[str] | None, typer.Option("--broker", metavar="NAME", help="Only this broker or home; may be repeated.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Show all parameters as they are now.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Change the parameters of congestion control of running brokers."""
    overlay = load_overlay(file)
    texts = dict(map(_pair, settings or []))
    if not texts and not show:
        raise MisuseError("nothing to tune: name parameters as key=value, or ask for a --list of them")
    names = list(dict.fromkeys(broker or (*overlay.brokers, *overlay.homes)))
    answers = _ask(overlay, names, "GET", texts)
    if texts and _are_fine(answers):
        answers = _ask(overlay, names, "POST", texts)
    if as_json:
        told = [{"name": each.name, "result": each.result, "reason": each.reason, **_figures(each)} for each in answers]
        console.json(told)
    else:
        _show(answers, is_change=bool(texts), show=show)
    if not _are_fine(answers):
        raise typer.Exit(FAILURE)


def _ask(overlay: Overlay, names: list[str], method: str, texts: dict[str, str]) -> list[Answer]:
    """Ask brokers, and about a home all its candidates: whichever runs it next has to know, too."""
    places = [overlay.place_of(name) for name in names if name not in overlay.homes]
    answers = ask_all(overlay, places, method, "/tune", texts)
    for home in (overlay.homes[name] for name in names if name in overlay.homes):
        candidates = [overlay.place_of(name) for name in home.candidates]
        told = ask_all(overlay, candidates, method, "/tune", {**texts, "home": home.name})
        answers += [replace(each, name=f"{home.name} at {each.name}") for each in told]
    return answers


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise MisuseError(f"{text!r} is not key=value")
    return key.strip(), value.strip()


def _are_fine(answers: list[Answer]) -> bool:
    return all(each.result in _FINE for each in answers)


def _figures(answer: Answer) -> dict[str, Any]:
    return {key: answer.told.get(key, empty) for key, empty in (("changed", {}), ("parameters", []))}


def _show(answers: list[Answer], *, is_change: bool, show: bool) -> None:
    if is_change:
        title = "tuned" if _are_fine(answers) else "nothing was changed, since not all brokers can do this"
        console.table(title, _ANSWERS, map(_row, answers))
    else:
        for each in answers:
            if each.reason:
                console.note(f"{each.name}: {each.reason}")
    if show:
        for names, parameters in _alike(answers):
            console.table(f"congestion control of {names}", _COLUMNS, _rows(parameters))


def _row(answer: Answer) -> tuple[str, ...]:
    # When nothing was changed, a broker that could have done it is not the one to look at.
    result = "could" if answer.result == "changed" else answer.result
    changed = (f"{name} {old} to {new}" for name, (old, new) in _figures(answer)["changed"].items())
    return answer.name, result, answer.reason or "\n".join(changed)


def _alike(answers: list[Answer]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Group brokers with the same parameters: one table is enough for them."""
    found: dict[bytes, list[Answer]] = {}
    for each in answers:
        if parameters := _figures(each)["parameters"]:
            found.setdefault(msgspec.json.encode(parameters), []).append(each)
    for some in found.values():
        yield ", ".join(each.name for each in some), _figures(some[0])["parameters"]


def _rows(parameters: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for each in parameters:
        shown = f"{each['value']} (profile: {each['default']})" if each["value"] != each["default"] else each["value"]
        yield each["name"], str(shown), each["unit"], each["help"]
