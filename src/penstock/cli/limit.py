"""``penstock limit``: sets, shows and lifts the one limit on all publishing in an overlay, while brokers run."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.ajil import Aup, AupError, parse_amount
from penstock.cli.admin import Answer, ask_all
from penstock.cli.console import FAILURE, console
from penstock.live.config import load_overlay
from penstock.live.overlay import Overlay
from penstock.model.errors import MisuseError
from penstock.protocol.status import LimitStatus

__all__ = ["Alpha", "Beta", "Json", "Policy", "Rate", "Settings", "app", "changes_of", "current"]

app = typer.Typer(no_args_is_help=True, help="One limit on all that is published, shared fairly (Ajil).")

_SET: Final = """
The limit is in bytes per second of all publishers together; `none` lifts it. It reaches all brokers through the
overlay, even if some cannot be asked at their `admin_port`. To make it last when all brokers stop, write it into the
table `[limit]` of the file. With `--set` any field of a policy is set: limit_packets_s, mode, report_fraction,
epoch_ms, smoothing, timeout_epochs, tax_bytes_s, fraction, hard_share, exempt_max, and priority.GROUP (the share of a
cut that the group suffers, 0 to be exempt).

Examples:

- `penstock limit set overlay.toml 600KB --policy global --alpha .5 --beta .25`
- `penstock limit set overlay.toml none --set limit_packets_s=5000 --set priority.cards=0`
- `penstock limit set overlay.toml 2MB --set mode=hard`
- `penstock limit set overlay.toml none`
"""
_SHOW: Final = """
Examples:

- `penstock limit show overlay.toml`
- `penstock limit show overlay.toml --json`
"""
_PRIORITY: Final = "priority."
_OTHERWISE: Final = ("limit_bytes_s", "priorities", "version", "author")
"""Fields of a policy that ``--set`` does not accept."""
_FINE: Final = ("applied", "unchanged")
_BROKERS: Final = {"broker": "left", "result": "left", "limit": "left", "version": "right", "estimate": "right"}
_SLOWED: Final = {"broker": "left", "publisher": "left", "group": "left", "quota": "right", "why": "left"}

File = Annotated[str, typer.Argument(metavar="OVERLAY.TOML", help="The file that describes the overlay.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Policy = Annotated[str | None, typer.Option(help="What a slowdown cuts: flat, local, global or naive.")]
Alpha = Annotated[float | None, typer.Option(help="Share of the top groups that react.")]
Beta = Annotated[float | None, typer.Option(help="Share of the top senders of a group that react.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other field of the policy; may be repeated.")
]
Rate = Annotated[str, typer.Argument(metavar="RATE", help="As 600KB or 1.5MB; none for no limit in bytes.")]


def changes_of(rate: str, settings: list[str] | None, **given: Any) -> dict[str, Any]:
    """The fields of a policy that were given on the command line."""
    changes = {key: value for key, value in given.items() if value is not None}
    kinds = {each.name: str(each.type) for each in fields(Aup)}
    priorities: dict[str, float] = {}
    for text in settings or []:
        key, equals, value = text.partition("=")
        try:
            if key.startswith(_PRIORITY) and equals:
                priorities[key.removeprefix(_PRIORITY)] = float(value)
            elif key in kinds and key not in _OTHERWISE and equals:
                changes[key] = _value(value, kinds[key])
            else:
                raise MisuseError(f"{text!r} is not key=value; known are {', '.join(_settable(kinds))}")
        except ValueError:
            raise MisuseError(f"{text!r} is not of type {kinds.get(key, 'float')}") from None
    if priorities:
        changes["priorities"] = priorities
    return {"limit_bytes_s": None if rate == "none" else parse_amount(rate), "limit_packets_s": None, **changes}


def _value(text: str, kind: str) -> Any:
    return int(text) if kind == "int" else text if kind == "str" else float(text)


def _settable(kinds: Mapping[str, str]) -> list[str]:
    return [*(key for key in kinds if key not in _OTHERWISE), f"{_PRIORITY}GROUP"]


@app.command("set", epilog=_SET)
def set_limit(
    file: File,
    rate: Rate,
    *,
    policy: Policy = None,
    alpha: Alpha = None,
    beta: Beta = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Set the limit, or lift it."""
    overlay = load_overlay(file)
    changes = changes_of(rate, settings, policy=policy, alpha=alpha, beta=beta)
    before = current(overlay, ask_all(overlay, overlay.brokers.values(), "GET", "/limit", {}))
    aup = before.successor(getpass.getuser(), **changes)
    told = {"aup": msgspec.json.encode(aup).decode()}
    answers = ask_all(overlay, overlay.brokers.values(), "POST", "/limit", told)
    _show(answers, as_json=as_json)
    if not any(each.result in _FINE for each in answers):
        raise typer.Exit(FAILURE)


@app.command("show", epilog=_SHOW)
def show(file: File, *, as_json: Json = False) -> None:
    """Show the limit, and who is slowed down for it."""
    overlay = load_overlay(file)
    answers = ask_all(overlay, overlay.brokers.values(), "GET", "/limit", {})
    _show(answers, as_json=as_json)
    if not all(each.result in _FINE for each in answers):
        raise typer.Exit(FAILURE)


def current(overlay: Overlay, answers: list[Answer]) -> Aup:
    """The newest policy of any broker or the file, with the highest version that any of them reports."""
    found = [Aup() if overlay.limit is None else overlay.limit.aup]
    versions = [found[0].version]
    for each in answers:
        versions.append(int(each.told.get("limit", {}).get("version", 0)))
        try:
            found.append(Aup(**each.told.get("policy", {})))
        except (AupError, TypeError):
            continue
    newest = max(found, key=lambda each: each.order)
    # A broker may enforce a policy that it only heard of, and report its version without the policy itself.
    return replace(newest, version=max(*versions, newest.version))


def _show(answers: list[Answer], *, as_json: bool) -> None:
    if as_json:
        told = [{"name": each.name, "result": each.result, "reason": each.reason, **each.told} for each in answers]
        console.json(told)
        return
    shown = [each for answer in answers for each in (answer, *_homes(answer))]
    console.table("the limit", _BROKERS, map(_row, shown))
    slowed = list(_slowed(shown))
    if slowed:
        console.table("slowed down", _SLOWED, iter(slowed))


def _homes(answer: Answer) -> list[Answer]:
    """The limit at the homes of pubends that run beside a broker."""
    found: dict[str, Any] = answer.told.get("homes", {})
    return [Answer(name, answer.result, told={"limit": limit}) for name, limit in found.items()]


def _row(answer: Answer) -> tuple[str, ...]:
    limit = _limit(answer)
    if limit is None:
        return answer.name, answer.result, answer.reason or "none", "", ""
    estimate = f"{limit.estimate_bytes_s:,} B/s"
    return answer.name, answer.result, answer.reason or limit.policy, str(limit.version), estimate


def _slowed(answers: list[Answer]) -> Iterator[tuple[str, ...]]:
    for answer in answers:
        limit = _limit(answer)
        for each in () if limit is None else limit.slowed:
            yield answer.name, each.publisher, each.group, f"{each.quota_s:,} {each.unit}", each.why


def _limit(answer: Answer) -> LimitStatus | None:
    figures = answer.told.get("limit")
    return msgspec.convert(figures, LimitStatus) if figures else None
