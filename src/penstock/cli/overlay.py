"""``penstock overlay``: checks an overlay file, applies a changed one to running brokers, and lists every setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.cli.admin import Answer, ask_all
from penstock.cli.console import FAILURE, console
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError
from penstock.live.membership import OverlayChange
from penstock.live.overlay import BrokerPlace, Home, Overlay
from penstock.live.reference import SECTIONS, Section, settings_of

__all__ = ["app", "database_hosts", "settings_page"]

_SETTINGS_EXAMPLES = """
Examples:

- `penstock overlay settings`
- `penstock overlay settings --markdown > docs/configuration.md`
- `penstock overlay settings --json | jq '.["[congestion]"][].name'`
"""
_CHECK_EXAMPLES = """
Ends with 1 if some brokers cannot reach each other by links, or if a broker would refuse to start.

Examples:

- `penstock overlay check overlay.toml`
- `penstock overlay check overlay.toml --json | jq .islands`
"""
_APPLY_EXAMPLES = """
The file must be at each broker already: where it was when the broker was started. Each broker rereads its own copy, if
it is the same as this one; so no secret travels. Brokers are asked at their `admin_port`. One without an `admin_port`
rereads its file on SIGHUP. Ends with 1 unless all have applied it.

Of pubends with candidates, other candidates can come and go while a broker runs. A broker that becomes a candidate, or
is none any more, needs a restart, and so does another `replicas_min`: restart the candidates one after the other. For
another database or lease, stop all of them first.

Examples:

- `penstock overlay apply overlay.toml --dry-run`
- `penstock overlay apply overlay.toml`
- `kill -HUP PID` for a broker without an admin port
"""
_INTRODUCTION = """# Configuration reference

Every setting of `overlay.toml`, as `penstock overlay settings --markdown` prints it. Names, defaults and texts
are those of the settings classes, which check them; [running an overlay](overlay.md) explains the rest of the file.
"""
_WITHOUT: Final = "send SIGHUP to its process, and look into its log"
_FINE: Final = ("applied", "changed", "unchanged")
_ANSWERS: Final = {"broker": "left", "result": "left", "what": "left"}
_HOMES: Final = {
    "pubend": "left",
    "candidates": "left",
    "database at": "left",
    "replicas min": "right",
    "lease ms": "right",
}
_PLACES: Final = {"broker": "left", "address": "left", "links": "left", "guaranteed": "left", "best effort": "left"}

File = Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="The brokers and links of an overlay: check the file, and apply it to brokers that run.",
)


@app.command("settings", epilog=_SETTINGS_EXAMPLES)
def settings(
    *,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the page of the manual.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting that an overlay file may have."""
    if as_markdown:
        console.write(settings_page())
    elif as_json:
        told = {section.table: [asdict(each) for each in settings_of(section)] for section in SECTIONS}
        console.json(told)
    else:
        columns = {"setting": "left", "default": "right", "unit": "left", "what it is": "left"}
        for section in SECTIONS:
            console.table(f"{section.table}: {section.about}", columns, _setting_rows(section))


@app.command("check", epilog=_CHECK_EXAMPLES)
def check(file: File, *, as_json: AsJson = False) -> None:
    """Check an overlay file; show brokers, links, who hosts what, and whether all can reach each other."""
    overlay = load_overlay(file)
    islands, problems = overlay.islands(), list(_problems(overlay))
    if as_json:
        brokers = {name: _described(overlay, place) for name, place in overlay.brokers.items()}
        homes = {home.pubend: _described_home(home) for home in overlay.homes.values()}
        told = {"overlay": overlay.name, "brokers": brokers, "links": overlay.links, "candidates": homes}
        console.json({**told, "islands": islands, "problems": problems})
    else:
        console.table(f"overlay {overlay.name}", _PLACES, (_row(overlay, each) for each in overlay.brokers.values()))
        if overlay.homes:
            console.table("pubends with candidates", _HOMES, map(_home_row, overlay.homes.values()))
        parts = "connected" if len(islands) == 1 else f"in {len(islands)} parts without links between them"
        console.line(f"{len(overlay.brokers)} brokers, {len(overlay.links)} links, {parts}")
    if len(islands) > 1:
        problems.append("not connected: " + " | ".join(", ".join(island) for island in islands))
    for problem in problems:
        console.note(problem)
    if problems:
        raise typer.Exit(FAILURE)


@app.command("apply", epilog=_APPLY_EXAMPLES)
def apply(
    file: File,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change, broker by broker.")] = False,
    as_json: AsJson = False,
) -> None:
    """Apply the file to all its brokers, without a restart."""
    overlay = load_overlay(file)
    method, query = "GET" if dry_run else "POST", {"sha256": overlay.digest}
    answers = ask_all(overlay, overlay.brokers.values(), method, "/overlay", query, without=_WITHOUT)
    if as_json:
        console.json([_shown(each) for each in answers])
    else:
        console.table("what would change" if dry_run else "applied", _ANSWERS, map(_told, answers))
    if any(each.result not in _FINE for each in answers):
        raise typer.Exit(FAILURE)


def settings_page() -> str:
    """The configuration reference of the manual, as Markdown."""
    return "\n".join([_INTRODUCTION, *(line for section in SECTIONS for line in _section(section))])


def _setting_rows(section: Section) -> Iterator[tuple[str, ...]]:
    for each in settings_of(section):
        yield each.name, each.default, each.unit, each.help


def _section(section: Section) -> Iterator[str]:
    yield f"## `{section.table}`\n\n{section.about}\n\n| setting | default | unit | what it is |\n|---|---|---|---|"
    for name, default, unit, text in _setting_rows(section):
        shown = f"`{default}`" if default else ""
        yield f"| `{name}` | {shown} | {unit} | {text} |"
    yield ""


def _shown(answer: Answer) -> dict[str, Any]:
    return {"name": answer.name, "result": answer.result, "reason": answer.reason, "change": _change(answer)}


def _told(answer: Answer) -> tuple[str, ...]:
    return answer.name, answer.result, answer.reason or "\n".join(_lines(_change(answer)))


def _change(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = answer.told.get("change", {})
    return found


def _lines(change: dict[str, Any]) -> list[str]:
    try:
        pairs = {key: list(change.get(key, {}).items()) for key in ("brokers_changed", "pubends_changed")}
        return msgspec.convert({**change, **pairs}, OverlayChange).lines()
    except (msgspec.ValidationError, AttributeError):
        return []


def database_hosts(url: str) -> list[str]:
    """The servers that a database's url names, without user and password."""
    # Not ``urlsplit``: several hosts with ports are no valid authority for it.
    authority = url.partition("://")[2].partition("?")[0].partition("/")[0]
    hosts = authority.rpartition("@")[2]
    return hosts.split(",") if hosts else ["this machine"]


def _problems(overlay: Overlay) -> Iterator[str]:
    for name in overlay.brokers:
        for look in (overlay.check_exposure, overlay.check_storage, overlay.check_shipping):
            try:
                look(name)
            except ConfigError as error:
                yield str(error)


def _described(overlay: Overlay, place: BrokerPlace) -> dict[str, Any]:
    return {
        "address": f"{place.host}:{place.port}",
        "admin": f"{place.admin_host}:{place.admin_port}" if place.admin_port else None,
        "number": place.number,
        "neighbours": [each for each in overlay.neighbours_of(place.name) if each not in overlay.homes],
        "guaranteed": [each for each in place.pubends if each not in place.best_effort],
        "best_effort": place.best_effort,
    }


def _described_home(home: Home) -> dict[str, Any]:
    return {
        "candidates": home.candidates,
        # Without the url, which may have a password.
        "hosts": database_hosts(home.database.url),
        "replicas_min": home.database.replicas_min,
        "lease_ms": home.lease.lease_ms,
    }


def _home_row(home: Home) -> tuple[str, ...]:
    told = _described_home(home)
    numbers = str(told["replicas_min"]), f"{told['lease_ms']:,}"
    return home.pubend, ", ".join(home.candidates), ", ".join(told["hosts"]), *numbers


def _row(overlay: Overlay, place: BrokerPlace) -> tuple[str, ...]:
    told = _described(overlay, place)
    lists = (", ".join(told[key]) for key in ("neighbours", "guaranteed", "best_effort"))
    return place.name, told["address"], *lists
